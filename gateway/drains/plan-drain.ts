import { isActive, isMoving, newDrainedGuest, type Drain, type DrainedGuest, type DrainsByHost } from './drain.js'

/** Facts about a container of a drain from which the next step is planned. */
export interface DrainedGuestFacts {
  /** Host that has the container. undefined: no host reports the container. */
  readonly hostId: string | undefined
  /** False while the container is being created, started, stopped or deleted. */
  readonly isSettled: boolean
  /** Task of the last move. undefined: no host reports the task. */
  readonly move: { readonly status: string; readonly error: string } | undefined
}

export interface DrainFacts {
  readonly factsOf: (guest: DrainedGuest) => DrainedGuestFacts
  /** True if the drained host is connected, so that a container which it does not report is not there. */
  readonly isHostOnline: boolean
  /** Containers that the drained host reports. */
  readonly present: readonly { readonly uuid: string; readonly name: string }[]
  /** Creates the id of a move. */
  readonly newId: () => string
  readonly nowMs: number
  /** Pause in ms between two attempts to move a container. */
  readonly retryMs: number
}

/** Number of attempts to move a container. */
export const maxAttempts = 3

/**
 * Plans the next state of a drain: records the results of moves, and lets further containers begin. A container that
 * begins gets the state `moving` and the id with which the caller orders its move. Returns the same drain if nothing
 * changes.
 */
export function planDrain(drain: Drain, facts: DrainFacts): Drain {
  const settled = replaceGuests(drain, (guest) => settle(drain, guest, facts))
  return end(beginNext(addNew(settled, facts), facts), facts.nowMs)
}

/** Records the target of a move that has begun. */
export function recordTarget(drain: Drain, moveId: string, toHostId: string): Drain {
  return replaceGuests(drain, (guest) => (guest.moveId === moveId ? { ...guest, toHostId } : guest))
}

/** Records that a move could not begin or has failed. It is tried again later, unless `isFinal` is true. */
export function failMove(drain: Drain, moveId: string, failure: MoveFailure): Drain {
  return replaceGuests(drain, (guest) =>
    guest.state === 'moving' && guest.moveId === moveId ? failed(guest, failure) : guest,
  )
}

export interface MoveFailure {
  readonly message: string
  /** Time of the next attempt, in ms since 1970. */
  readonly retryAtMs: number
  /** True if a later attempt would fail for the same reason. */
  readonly isFinal: boolean
}

/** Number of containers in ended drains that are retained. Each gateway reads all drains after each change. */
export const mostRetained = 5000

/** Forgets the drains that ended first, so that the others have at most `mostRetained` containers. */
export function forgetOldest(drains: DrainsByHost): DrainsByHost {
  let count = 0
  const retained = Object.values(drains)
    .sort((a, b) => b.endedAtMs - a.endedAtMs)
    .filter((drain) => isActive(drain) || (count += drain.guests.length) <= mostRetained)
  return Object.fromEntries(retained.map((drain) => [drain.hostId, drain]))
}

function failed(guest: DrainedGuest, { message, retryAtMs, isFinal }: MoveFailure): DrainedGuest {
  if (isFinal || guest.attempts >= maxAttempts) return { ...guest, state: 'failed', message }
  return { ...guest, state: 'waiting', message, retryAtMs }
}

function replaceGuests(drain: Drain, replace: (guest: DrainedGuest) => DrainedGuest): Drain {
  const guests = drain.guests.map(replace)
  return guests.every((guest, index) => guest === drain.guests[index]) ? drain : { ...drain, guests }
}

/** True if the container is where the drain wants it. */
function hasArrived({ direction, hostId }: Drain, at: string): boolean {
  return direction === 'away' ? at !== hostId : at === hostId
}

function settle(drain: Drain, guest: DrainedGuest, facts: DrainFacts): DrainedGuest {
  if (guest.state !== 'moving' && guest.state !== 'waiting') return guest
  const { hostId, move } = facts.factsOf(guest)
  if (move !== undefined && !['done', 'failed', 'canceled'].includes(move.status)) return guest
  if (hostId !== undefined && hasArrived(drain, hostId))
    return { ...guest, state: 'moved', toHostId: hostId, message: '' }
  if (guest.state === 'moving' && move !== undefined)
    return settleMoving(guest, { hostId, move }, facts.nowMs + facts.retryMs)
  return hostId === undefined && facts.isHostOnline && drain.direction === 'away' ? skip(guest, gone) : guest
}

/** Records the result of an ended move whose container does not appear where the drain wants it. */
function settleMoving(
  guest: DrainedGuest,
  { hostId, move }: { readonly hostId: string | undefined; readonly move: { status: string; error: string } },
  retryAtMs: number,
): DrainedGuest {
  if (move.status === 'failed') return failed(guest, { message: move.error, retryAtMs, isFinal: false })
  if (move.status === 'canceled') return failed(guest, { message: 'the move was canceled', retryAtMs, isFinal: true })
  // The target reports the container a little later, or somebody has deleted it there.
  if (hostId === undefined) return { ...guest, state: 'moved', message: '' }
  return failed(guest, {
    message: 'the container was moved in the opposite direction meanwhile',
    retryAtMs,
    isFinal: true,
  })
}

const gone = 'the container was deleted'

function skip(guest: DrainedGuest, message: string): DrainedGuest {
  return { ...guest, state: 'skipped', message }
}

/** Adds containers whose creation had begun before the host was closed for new ones. */
function addNew(drain: Drain, { present }: DrainFacts): Drain {
  if (drain.direction !== 'away' || drain.state !== 'running') return drain
  const known = new Set(drain.guests.map(({ uuid }) => uuid))
  const added = present.filter(({ uuid }) => !known.has(uuid))
  return added.length === 0 ? drain : { ...drain, guests: [...drain.guests, ...added.map(newDrainedGuest)] }
}

function beginNext(drain: Drain, { factsOf, newId, nowMs }: DrainFacts): Drain {
  if (drain.state !== 'running') return drain
  let free = drain.parallel - drain.guests.filter(({ state }) => state === 'moving').length
  return replaceGuests(drain, (guest) => {
    if (guest.state !== 'waiting' || free <= 0 || nowMs < guest.retryAtMs) return guest
    const { hostId, isSettled } = factsOf(guest)
    if (hostId === undefined || !isSettled) return guest
    free--
    return { ...guest, state: 'moving', attempts: guest.attempts + 1, moveId: newId() }
  })
}

/** Ends a drain when no container is left to move. The state `running` becomes `done`; `canceled` stays. */
function end(drain: Drain, nowMs: number): Drain {
  const isLeft = drain.guests.some(({ state }) => state === 'waiting') || isMoving(drain)
  if (isLeft || drain.endedAtMs !== 0 || drain.state === 'paused') return drain
  return { ...drain, state: drain.state === 'running' ? 'done' : drain.state, endedAtMs: nowMs }
}
