export const windowStates = ['announced', 'active', 'ended', 'canceled'] as const
export type WindowState = (typeof windowStates)[number]

/** A maintenance window as the record of a host shows it. */
export interface HostWindow {
  readonly id: string
  /** Number that increases with every change of the window. */
  readonly version: number
  readonly state: WindowState
  readonly startsAtMs: number
  readonly endsAtMs: number
  /** Expected interruption of each guest in minutes. 0: none. */
  readonly interruptionMinutes: number
  /** Plain text for customers. */
  readonly message: string
  /** Time in ms since 1970 at which the window ended or was canceled. 0: it is open. */
  readonly closedAtMs: number
}

/** Kinds of changes of a host's maintenance window. */
export const windowChanges = ['announced', 'changed', 'started', 'ended', 'canceled'] as const
export type WindowChange = (typeof windowChanges)[number]

/** Time in ms for which a host retains a closed window, so that all gateways see how it ended. */
const retainedMs = 24 * 3_600_000
/** Maximum number of closed windows that a host retains. If there are more, the oldest are dropped. */
const maxClosed = 20

export function isOpen({ state }: Pick<HostWindow, 'state'>): boolean {
  return state === 'announced' || state === 'active'
}

/**
 * Adds changed windows to those of a host, and drops windows that were closed long ago. A window replaces only an older
 * version of the same window, so that each version reaches the host once.
 */
export function mergeWindows(
  known: readonly HostWindow[],
  changed: readonly HostWindow[],
  nowMs: number,
): readonly HostWindow[] {
  const merged = new Map(known.map((window) => [window.id, window]))
  for (const window of changed)
    if (window.version > (merged.get(window.id)?.version ?? 0)) merged.set(window.id, window)
  const retained = [...merged.values()].filter((window) => !isOutdated(window, nowMs))
  const closed = retained.filter((window) => !isOpen(window)).sort((a, b) => b.closedAtMs - a.closedAtMs)
  const surplus = new Set(closed.slice(maxClosed))
  return retained.filter((window) => !surplus.has(window))
}

/** True if the host need not retain the window any longer. */
export function isOutdated({ closedAtMs }: HostWindow, nowMs: number): boolean {
  return closedAtMs !== 0 && nowMs - closedAtMs > retainedMs
}

/** Finds the current window of a host, or else the next one. */
export function findNextWindow(windows: readonly HostWindow[]): HostWindow | undefined {
  const open = windows.filter(isOpen)
  return open.find(({ state }) => state === 'active') ?? open.sort((a, b) => a.startsAtMs - b.startsAtMs)[0]
}

/**
 * Lists what happened to a window between two versions, in order. A gateway can have missed versions in between.
 * @param before undefined: the host did not have the window
 * @param after undefined: the host no longer retains the window
 */
export function changesOf(before: HostWindow | undefined, after: HostWindow | undefined): WindowChange[] {
  if (after === undefined || before?.version === after.version) return []
  const former = before && isOpen(before) ? before : undefined
  if (after.state === 'canceled') return former ? ['canceled'] : []
  return [...factChanges(former, after), ...stateChanges(former, after)]
}

/** @param before undefined: the host did not have the window, or the window was closed */
function factChanges(before: HostWindow | undefined, after: HostWindow): WindowChange[] {
  if (before === undefined) return ['announced']
  return isOpen(after) && !hasSameFacts(before, after) ? ['changed'] : []
}

function stateChanges(before: HostWindow | undefined, { state }: HostWindow): WindowChange[] {
  if (state === 'announced') return []
  const started: WindowChange[] = before?.state === 'active' ? [] : ['started']
  return state === 'ended' ? [...started, 'ended'] : started
}

function hasSameFacts(a: HostWindow, b: HostWindow): boolean {
  return (
    a.startsAtMs === b.startsAtMs &&
    a.endsAtMs === b.endsAtMs &&
    a.interruptionMinutes === b.interruptionMinutes &&
    a.message === b.message
  )
}
