import { isOpen, type HostWindow } from '../fleet/host-windows.js'

/** A stored maintenance window. It announces planned work on hosts to customers. */
export interface Window extends HostWindow {
  readonly hostIds: readonly string[]
  readonly announcedBy: string
  readonly announcedAtMs: number
}

/** Facts of a window that an operator sets. */
export type WindowFields = Pick<Window, 'startsAtMs' | 'endsAtMs' | 'interruptionMinutes' | 'message' | 'hostIds'>

export type Windows = Readonly<Record<string, Window>>

export const mostOpenWindows = 100
export const mostInterruptionMinutes = 7 * 24 * 60

/** Maximum number of ended or canceled windows in the store. If there are more, the oldest are dropped. */
const mostClosedWindows = 100

/** Drops the oldest closed windows. Open windows stay. */
export function forgetOldest(windows: Windows): Windows {
  const all = Object.values(windows)
  const closed = all.filter((window) => !isOpen(window)).sort((a, b) => b.closedAtMs - a.closedAtMs)
  if (closed.length <= mostClosedWindows) return windows
  const dropped = new Set(closed.slice(mostClosedWindows).map(({ id }) => id))
  return Object.fromEntries(Object.entries(windows).filter(([id]) => !dropped.has(id)))
}

/** Returns the part of a window that the records of its hosts contain. */
export function hostWindowOf(window: Window): HostWindow {
  const { id, version, state, startsAtMs, endsAtMs, interruptionMinutes, message, closedAtMs } = window
  return { id, version, state, startsAtMs, endsAtMs, interruptionMinutes, message, closedAtMs }
}
