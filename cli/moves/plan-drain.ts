import type { Row } from '../output/table.js'

/* This module creates texts about the drain of a host, from the drain's state in the API. */

export interface DrainedGuest {
  readonly container_uuid: string
  readonly name: string
  readonly state: string
  readonly to_host_id: string
  readonly message: string
}

export interface Drain {
  readonly host_id: string
  readonly state: string
  readonly mode: string
  readonly direction: string
  /** Start of the last drain. Empty: the host was never drained. */
  readonly started_at: string
  readonly containers: readonly DrainedGuest[]
}

/** Settings of a new drain, as the user typed them in the flags. They are not checked yet. */
export interface DrainSettings {
  readonly mode?: string
  readonly parallel?: string
  readonly deadline?: string
}

/** Returns the flags that have no effect on a drain in progress. */
export function flagsOfNewDrain({ mode, parallel, deadline }: DrainSettings): string[] {
  const flags = { '--mode': mode, '--parallel': parallel, '--deadline': deadline }
  return Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [flag]))
}

export const isDraining = ({ state }: Drain): boolean => state === 'running' || state === 'paused'

type NameOf = (hostId: string) => string

/** Columns of the table of a plan. */
export const planColumns = ['guest', 'will', 'note']

export function planRows({ mode, containers }: Drain, nameOf: NameOf): Row[] {
  return containers.map(({ name, state, to_host_id: to, message }) => ({
    guest: name,
    will: intention({ state, mode, to: nameOf(to) }),
    note: message,
  }))
}

function intention({ state, mode, to }: { state: string; mode: string; to: string }): string {
  if (state === 'failed') return 'stay'
  if (state !== 'waiting') return 'do nothing'
  return mode === 'stop' ? 'stop' : `move to ${to}`
}

/** Returns one line with the progress of a drain. */
export function drainProgress({ state, containers }: Drain): string {
  const count = (wanted: string): number => containers.filter((guest) => guest.state === wanted).length
  const ended = count('done') + count('skipped')
  const parts = [
    `${ended} of ${containers.length} done`,
    ...['active', 'failed'].filter((one) => count(one) > 0).map((one) => `${count(one)} ${one}`),
    ...(state === 'paused' ? ['paused'] : []),
  ]
  return parts.join(', ')
}

/** Returns a line for each guest whose result is new. */
export function drainNews(before: Drain | undefined, after: Drain, nameOf: NameOf): string[] {
  const known = new Map(before?.containers.map((guest) => [guest.container_uuid, guest.state]))
  return after.containers
    .filter(({ container_uuid: uuid, state }) => isEnd(state) && known.get(uuid) !== state)
    .map((guest) => `${guest.name}: ${resultOf(guest, after.mode, nameOf)}`)
}

const isEnd = (state: string): boolean => /^(done|failed|skipped)$/.test(state)

function resultOf({ state, to_host_id: to, message }: DrainedGuest, mode: string, nameOf: NameOf): string {
  if (state === 'failed') return `failed: ${message || 'no reason is known'}`
  if (state === 'skipped') return `skipped: ${message || 'there was nothing to do'}`
  return mode === 'stop' ? 'stopped' : to === '' ? 'moved' : `moved to ${nameOf(to)}`
}

/** Returns a text that says how the followed drain was replaced; undefined: the drain was not replaced. */
export function drainReplacement(followed: Drain, now: Drain): string | undefined {
  if (now.state === 'none') return 'the gateway no longer stores this drain'
  if (now.started_at !== followed.started_at) return 'another drain of the host has begun'
  if (now.direction !== followed.direction) return 'the drain was turned around: its guests return to the host'
  return undefined
}

/** Returns the reason why a drain failed or does not continue; undefined: the drain succeeded. */
export function drainFailure({ state, containers }: Drain): string | undefined {
  if (state === 'paused') return 'the drain is paused'
  if (state === 'canceled') return 'the drain was canceled'
  const failed = containers.filter((guest) => guest.state === 'failed').length
  return failed === 0 ? undefined : `${failed} of ${containers.length} guests stay on the host`
}
