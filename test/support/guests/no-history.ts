import type { GuestHistory } from '../../../agent/guests/record/guest-history.js'

/** Histories for tests in which guests have no tasks, alerts and usage. */
export const noHistory: GuestHistory = {
  collect: () => '{}',
  removeLeft: () => undefined,
  position: () => ({ revision: 0, atMs: 0 }),
  receive: () => undefined,
  adopt: () => undefined,
  prune: () => undefined,
}
