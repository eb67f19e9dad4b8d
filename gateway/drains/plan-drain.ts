import { hasActive, newDrainedGuest, type Drain, type DrainedGuest, type DrainsByHost } from './drain.js'

/** Facts about a container of a drain. They determine the container's next step. */
export interface DrainedGuestFacts {
  /** Host that has the container. undefined: no host reports the container. */
  readonly hostId: string | undefined
  /** False while the container is being created, started, stopped or deleted. */
  readonly isSettled: boolean
  readonly isStopped: boolean
  /** Task of the last move, stop or start. undefined: no host reports the task. */
  readonly task: { readonly status: string; readonly error: string } | undefined
}

export interface DrainFacts {
  readonly factsOf: (guest: DrainedGuest) => DrainedGuestFacts
  readonly isHostOnline: boolean
  /** True if all hosts are connected. In this case, a container that no host reports does not exist. */
  readonly areAllOnline: boolean
  /** True if containers are about to appear on the drained host, because they are being created there or move to it. */
  readonly isExpecting: boolean
  /** Containers that the drained host reports. */
  readonly present: readonly { readonly uuid: string; readonly name: string }[]
  /** Creates the id of a task. */
  readonly newId: () => string
  readonly nowMs: number
  readonly retryMs: number
}

/** Maximum number of attempts for each container. */
export const maxAttempts = 3

/**
 * Plans the next state of a drain: records the results of tasks, and lets further containers begin. Such a container
 * gets the state `active` and the id of its next task. The caller starts this task. Returns the same drain if nothing
 * changes.
 */
export function planDrain(drain: Drain, facts: DrainFacts): Drain {
  const settled = replaceGuests(drain, (guest) => settle(drain, guest, facts))
  return end(beginNext(giveUp(addNew(settled, facts), facts.nowMs), facts), facts)
}

/** A task that has begun. */
interface BegunTask {
  readonly toHostId: string
  /** Id of the task. Absent: the requested id. */
  readonly operationId?: string
}

/** Records target and task of a begun move or restore. The task has another id if an earlier restore continues. */
export function recordTarget(drain: Drain, taskId: string, { toHostId, operationId = taskId }: BegunTask): Drain {
  const begun = { toHostId, taskId: operationId }
  return replaceGuests(drain, (guest) => (guest.taskId === taskId ? { ...guest, ...begun } : guest))
}

/** Records that a task could not begin or has failed. Retries only if an attempt is left and `kind` is not `final`. */
export function failTask(drain: Drain, taskId: string, failure: TaskFailure): Drain {
  return replaceGuests(drain, (guest) =>
    guest.state === 'active' && guest.taskId === taskId ? failed(drain, guest, failure) : guest,
  )
}

export interface TaskFailure {
  readonly message: string
  readonly retryAtMs: number
  /**
   * `final`: a later attempt would fail for the same reason. `passing`: the container is busy with something else for a
   * while, so the attempt does not count.
   */
  readonly kind?: 'final' | 'passing'
}

/** Maximum number of containers in stored, ended drains. It limits the data that gateways read after each change. */
export const mostRetained = 5000

/** Forgets the drains that ended first. The remaining ended drains have at most `mostRetained` containers. */
export function forgetOldest(drains: DrainsByHost): DrainsByHost {
  let count = 0
  const retained = Object.values(drains)
    .sort((a, b) => b.endedAtMs - a.endedAtMs)
    .filter((drain) => drain.endedAtMs === 0 || (count += drain.guests.length) <= mostRetained)
  return Object.fromEntries(retained.map((drain) => [drain.hostId, drain]))
}

function failed({ state }: Drain, guest: DrainedGuest, { message, retryAtMs, kind }: TaskFailure): DrainedGuest {
  const attempts = kind === 'passing' ? guest.attempts - 1 : guest.attempts
  if (kind === 'final' || attempts >= maxAttempts || state === 'canceled') return { ...guest, state: 'failed', message }
  const { toHostId } = guest
  const refusedBy = toHostId === '' ? guest.refusedBy : [...guest.refusedBy, toHostId]
  return { ...guest, state: 'waiting', attempts, refusedBy, toHostId: '', message, retryAtMs }
}

function replaceGuests(drain: Drain, replace: (guest: DrainedGuest) => DrainedGuest): Drain {
  const guests = drain.guests.map(replace)
  return guests.every((guest, index) => guest === drain.guests[index]) ? drain : { ...drain, guests }
}

/** True if the container already is where the drain wants it (mode `move`), or has the power state (mode `stop`). */
function isReached({ mode, direction, hostId }: Drain, at: string, { isStopped }: DrainedGuestFacts): boolean {
  if (mode === 'stop') return at === hostId && isStopped === (direction === 'away')
  return direction === 'away' ? at !== hostId : at === hostId
}

function settle(drain: Drain, guest: DrainedGuest, facts: DrainFacts): DrainedGuest {
  if (guest.state !== 'active' && guest.state !== 'waiting') return guest
  return drain.mode === 'evacuate' ? settleRestore(drain, guest, facts) : settleMoved(drain, guest, facts)
}

function settleMoved(drain: Drain, guest: DrainedGuest, facts: DrainFacts): DrainedGuest {
  const known = facts.factsOf(guest)
  const { hostId, task } = known
  if (task && !isEnded(task)) return guest
  if (hostId !== undefined && isReached(drain, hostId, known))
    return { ...guest, state: 'done', toHostId: drain.mode === 'stop' ? '' : hostId, message: '' }
  if (guest.state === 'active' && task)
    return settleActive(drain, guest, { hostId, task, retryAtMs: facts.nowMs + facts.retryMs })
  return skipUnreachable(drain, guest, { hostId, areAllOnline: facts.areAllOnline })
}

/** Records a restore's result from the status of its task. Even a failed restore can leave its container behind. */
function settleRestore(drain: Drain, guest: DrainedGuest, { factsOf, nowMs, retryMs }: DrainFacts): DrainedGuest {
  const { hostId, task } = factsOf(guest)
  if (task && !isEnded(task)) return guest
  if (guest.state === 'waiting') return leftBefore(drain, guest, hostId)
  if (!task) return guest
  if (task.status === 'done') return { ...guest, state: 'done', message: '' }
  const retryAtMs = nowMs + retryMs
  if (task.status === 'failed') return failed(drain, guest, { message: task.error, retryAtMs })
  return failed(drain, guest, { message: 'the task was canceled', retryAtMs, kind: 'final' })
}

/** Skips a container that is already on another host, for example because of an earlier evacuation. */
function leftBefore({ hostId }: Drain, guest: DrainedGuest, at: string | undefined): DrainedGuest {
  return at === undefined || at === hostId ? guest : skip(guest, elsewhere)
}

/** Skips a container that was deleted, or that somebody has moved away from the host on which the drain left it. */
function skipUnreachable(
  drain: Drain,
  guest: DrainedGuest,
  { hostId, areAllOnline }: Pick<DrainedGuestFacts, 'hostId'> & Pick<DrainFacts, 'areAllOnline'>,
): DrainedGuest {
  if (hostId === undefined) return areAllOnline ? skip(guest, gone) : guest
  return wasMovedOn(drain, guest, hostId) ? skip(guest, elsewhere) : guest
}

interface EndedTask {
  /** Host that has the container. undefined: no host reports the container. */
  readonly hostId: string | undefined
  readonly task: { readonly status: string; readonly error: string }
  readonly retryAtMs: number
}

/** Records the result of an ended task whose container does not have the wanted host or state. */
function settleActive(drain: Drain, guest: DrainedGuest, { hostId, task, retryAtMs }: EndedTask): DrainedGuest {
  if (task.status === 'failed') return failed(drain, guest, { message: task.error, retryAtMs })
  if (task.status === 'canceled')
    return failed(drain, guest, { message: 'the task was canceled', retryAtMs, kind: 'final' })
  // The task has succeeded. The wanted state is missing, because its report is late or the container was changed again.
  if (hostId === undefined || drain.mode === 'stop') return { ...guest, state: 'done', message: '' }
  const message = 'the container was moved in the opposite direction meanwhile'
  return failed(drain, guest, { message, retryAtMs, kind: 'final' })
}

const gone = 'the container was deleted'
const elsewhere = 'somebody has moved the container to another host'

/** True if somebody has moved the container away from the host on which the drain left it. */
function wasMovedOn({ mode, direction, hostId }: Drain, { toHostId }: DrainedGuest, at: string): boolean {
  if (mode === 'stop') return at !== hostId
  return direction === 'back' && toHostId !== '' && at !== toHostId
}

function skip(guest: DrainedGuest, message: string): DrainedGuest {
  return { ...guest, state: 'skipped', message }
}

/**
 * Adds containers that have appeared on the host. They have come back, or their creation had begun before the host was
 * closed for new containers.
 */
function addNew(drain: Drain, { present }: DrainFacts): Drain {
  if (drain.direction !== 'away' || drain.state !== 'running') return drain
  const known = new Set(drain.guests.map(({ uuid }) => uuid))
  const added = present.filter(({ uuid }) => !known.has(uuid)).map(newDrainedGuest)
  const all = added.length === 0 ? drain : { ...drain, guests: [...drain.guests, ...added] }
  if (drain.mode !== 'move') return all
  const here = new Set(present.map(({ uuid }) => uuid))
  return replaceGuests(all, (guest) =>
    guest.state === 'done' && here.has(guest.uuid) ? newDrainedGuest(guest) : guest,
  )
}

/** Gives up the containers that still wait at the deadline. They stay as they are. */
function giveUp(drain: Drain, nowMs: number): Drain {
  if (drain.state !== 'running' || drain.deadlineMs === 0 || nowMs < drain.deadlineMs) return drain
  return replaceGuests(drain, (guest) =>
    guest.state === 'waiting' ? { ...guest, state: 'failed', message: late } : guest,
  )
}

const late = 'the deadline of the drain has passed'

function beginNext(drain: Drain, facts: DrainFacts): Drain {
  if (drain.state !== 'running' || !canBegin(drain, facts)) return drain
  let free = drain.parallel - drain.guests.filter(({ state }) => state === 'active').length
  return replaceGuests(drain, (guest) => {
    if (guest.state !== 'waiting' || free <= 0 || facts.nowMs < guest.retryAtMs) return guest
    const { hostId, isSettled, task } = facts.factsOf(guest)
    // A guest of a failed host can be restored even if no host reports it.
    const isKnown = hostId !== undefined || drain.mode === 'evacuate'
    if (!isKnown || !isSettled || (task && !isEnded(task))) return guest
    free--
    return { ...guest, state: 'active', attempts: guest.attempts + 1, taskId: facts.newId() }
  })
}

/** False while the drained host is offline although it must receive, stop or start containers. */
function canBegin({ mode, direction }: Drain, { isHostOnline }: DrainFacts): boolean {
  return isHostOnline || (mode !== 'stop' && direction === 'away')
}

/** Ends a drain when no container waits or is active, and no further container is about to appear on the host. */
function end(drain: Drain, { isExpecting, nowMs }: DrainFacts): Drain {
  if (isBusy(drain) || drain.endedAtMs !== 0) return drain
  if (isExpecting && drain.direction === 'away' && drain.state !== 'canceled') return drain
  return { ...drain, state: drain.state === 'canceled' ? 'canceled' : 'done', endedAtMs: nowMs }
}

/** True if containers of the drain wait or are active. */
export function isBusy(drain: Drain): boolean {
  return drain.guests.some(({ state }) => state === 'waiting') || hasActive(drain)
}

function isEnded({ status }: { readonly status: string }): boolean {
  return ['done', 'failed', 'canceled'].includes(status)
}
