import { conflict } from '../../shared/errors.js'
import { hasActive, isActive, type Drain, type DrainedGuest, type DrainMode } from './drain.js'

/* Commands of an operator for a drain. No command stops a task that has begun. */

export const drainCommands = ['pause', 'resume', 'cancel'] as const
export type DrainCommand = (typeof drainCommands)[number]

/** @throws {BerthError} `invalid_state` */
export function planCommand(drain: Drain | undefined, command: DrainCommand): Drain {
  if (!drain) throw conflict('invalid_state', 'the host was never drained')
  return plans[command](drain)
}

/**
 * @param mode mode of the second drain. An evacuation may replace a drain of another mode, which cannot continue without
 * its host.
 * @throws {BerthError} `drain_running`
 */
export function refuseSecondDrain(drain: Drain | undefined, mode?: DrainMode): void {
  if (!drain || !isActive(drain) || (mode === 'evacuate' && drain.mode !== mode)) return
  throw conflict('drain_running', `a drain of the host is ${drain.state}: cancel it, or wait for its end`)
}

/**
 * Reverses a drain. Containers that it has moved away return to the host, and containers that it has stopped are
 * started. Containers that were stopped before the drain stay stopped.
 * @throws {BerthError} `invalid_state` if the drain has changed nothing, `drain_running`
 */
export function planReturn(drain: Drain | undefined): Drain {
  if (drain?.mode === 'evacuate')
    throw conflict('invalid_state', 'the containers were restored on other hosts: move them back with migrations')
  if (!drain || drain.direction === 'back' || !drain.guests.some(isReturned))
    throw conflict('invalid_state', 'no container can return: the last drain of the host has moved or stopped none')
  if (hasActive(drain))
    throw conflict(
      'drain_running',
      'containers are still being moved or stopped: cancel the drain and wait for its last task',
    )
  const guests = drain.guests.map((guest) => (isReturned(guest) ? retried(guest) : leave(guest, stayed)))
  return { ...drain, direction: 'back', state: 'running', deadlineMs: 0, endedAtMs: 0, guests }
}

/** Message of an unchanged container. It must differ from `canceled`, because `resume` retries canceled containers. */
const stayed = 'the drain did not change the container'

const plans: Readonly<Record<DrainCommand, (drain: Drain) => Drain>> = {
  pause: (drain) => {
    refuseUnless(drain, ['running'], 'paused')
    return { ...drain, state: 'paused' }
  },
  // `resume` repeats failed tasks of containers, even after the deadline.
  resume: (drain) => {
    const hasFailed = drain.guests.some(({ state }) => state === 'failed')
    refuseUnless(drain, hasFailed ? ['paused', 'canceled', 'done'] : ['paused', 'canceled'], 'resumed')
    const guests = drain.guests.map((guest) => (isRetried(guest) ? retried(guest) : guest))
    return { ...drain, state: 'running', deadlineMs: 0, endedAtMs: 0, guests }
  },
  cancel: (drain) => {
    refuseUnless(drain, ['running', 'paused'], 'canceled')
    const guests = drain.guests.map((guest) => (guest.state === 'waiting' ? leave(guest, canceled) : guest))
    return { ...drain, state: 'canceled', guests }
  },
}

const canceled = 'the drain was canceled'

function refuseUnless(drain: Drain, states: readonly Drain['state'][], done: string): void {
  if (!states.includes(drain.state))
    throw conflict('invalid_state', `the drain of the host is ${drain.state} and cannot be ${done}`)
}

/** True if the container must return or be started, because the drain has moved or stopped it. */
function isReturned({ state, taskId }: DrainedGuest): boolean {
  return state === 'done' && taskId !== ''
}

function isRetried({ state, message }: DrainedGuest): boolean {
  return state === 'failed' || (state === 'skipped' && message === canceled)
}

function retried(guest: DrainedGuest): DrainedGuest {
  return { ...guest, state: 'waiting', attempts: 0, retryAtMs: 0, refusedBy: [], message: '' }
}

function leave(guest: DrainedGuest, message: string): DrainedGuest {
  return { ...guest, state: 'skipped', message }
}
