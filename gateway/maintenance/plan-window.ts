import { conflict, invalidField } from '../../shared/errors.js'
import { isOpen, type HostWindow } from '../fleet/host-windows.js'
import { hostWindowOf, mostOpenWindows, type Window, type WindowFields, type Windows } from './window.js'

const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
/** Time in ms by which `starts_at` may be in the past, because a request for "now" takes a moment. */
const graceMs = minuteMs
const mostAheadMs = 90 * dayMs
const longestMs = 7 * dayMs

export interface NewWindow extends WindowFields {
  readonly id: string
  readonly announcedBy: string
}

/** @throws {BerthError} `invalid_field`, `too_many_windows` */
export function planAnnouncement(windows: Windows, wanted: NewWindow, nowMs: number): Window {
  checkStart(wanted, nowMs)
  checkEnd(wanted, nowMs)
  if (Object.values(windows).filter(isOpen).length >= mostOpenWindows)
    throw conflict('too_many_windows', `at most ${mostOpenWindows} maintenance windows can be open: cancel one first`)
  return { ...wanted, version: 1, state: 'announced', closedAtMs: 0, announcedAtMs: nowMs }
}

/** @throws {BerthError} `invalid_field`, `invalid_state` */
export function planChange(window: Window, change: Partial<WindowFields>, nowMs: number): Window {
  refuseClosed(window, 'changed')
  const after = { ...window, ...change, version: window.version + 1 }
  if (change.startsAtMs !== undefined && change.startsAtMs !== window.startsAtMs) {
    if (window.state === 'active')
      throw conflict('invalid_state', 'the maintenance has started: starts_at can no longer be changed')
    checkStart(after, nowMs)
  }
  checkEnd(after, nowMs)
  return after
}

/** Cancels an announced window. An active window ends now. @throws {BerthError} `invalid_state` */
export function planCancel(window: Window, nowMs: number): Window {
  refuseClosed(window, 'canceled')
  const closed = { ...window, version: window.version + 1, closedAtMs: nowMs }
  return window.state === 'active' ? { ...closed, state: 'ended', endsAtMs: nowMs } : { ...closed, state: 'canceled' }
}

/** Returns the next state of a window by time. A late window gets the missed states one after another. */
export function planState(window: Window, nowMs: number): Window {
  const version = window.version + 1
  if (window.state === 'announced' && window.startsAtMs <= nowMs) return { ...window, version, state: 'active' }
  if (window.state === 'active' && window.endsAtMs <= nowMs)
    return { ...window, version, state: 'ended', closedAtMs: nowMs }
  return window
}

/** Windows that the record of a host contains. */
export interface HostFacts {
  readonly id: string
  readonly windows: readonly HostWindow[]
}

/** Returns the windows whose present version the record of a host lacks. */
export function planHost({ id, windows: known }: HostFacts, windows: readonly Window[], nowMs: number): HostWindow[] {
  return windows.flatMap((window) => {
    const before = known.find((one) => one.id === window.id)
    if (before && before.version >= window.version) return []
    if (window.hostIds.includes(id)) return before || isOpen(window) ? [hostWindowOf(window)] : []
    return before && isOpen(before) ? [withdrawn(hostWindowOf(window), nowMs)] : []
  })
}

/**
 * Returns the open windows of a host's record that are missing in the store, marked as canceled. A gateway restores
 * lost records of hosts, but not lost windows.
 */
export function planLost({ windows: known }: HostFacts, windows: Windows, nowMs: number): HostWindow[] {
  const lost = known.filter((window) => isOpen(window) && !windows[window.id])
  return lost.map((window) => withdrawn({ ...window, version: window.version + 1 }, nowMs))
}

/** Returns the canceled form of a window, for a host that the window does not concern any longer. */
function withdrawn(window: HostWindow, nowMs: number): HostWindow {
  return { ...window, state: 'canceled', closedAtMs: nowMs }
}

function refuseClosed({ state }: Window, done: string): void {
  if (!isOpen({ state })) throw conflict('invalid_state', `the maintenance is ${state} and cannot be ${done}`)
}

function checkStart({ startsAtMs }: Pick<Window, 'startsAtMs'>, nowMs: number): void {
  if (startsAtMs < nowMs - graceMs) throw invalidField('starts_at', 'starts_at: must not be in the past')
  if (startsAtMs > nowMs + mostAheadMs) throw invalidField('starts_at', 'starts_at: must be at most 90 days ahead')
}

function checkEnd({ startsAtMs, endsAtMs }: Pick<Window, 'startsAtMs' | 'endsAtMs'>, nowMs: number): void {
  if (endsAtMs <= startsAtMs) throw invalidField('ends_at', 'ends_at: must be after starts_at')
  if (endsAtMs <= nowMs) throw invalidField('ends_at', 'ends_at: must be in the future')
  if (endsAtMs - startsAtMs > longestMs)
    throw invalidField('ends_at', 'ends_at: must be at most 7 days after starts_at')
}
