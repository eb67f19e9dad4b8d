import type { AlertState } from './plan-merge.js'

/** Types of alerts that harm nobody else: they never stop a guest. */
const neverStopped: ReadonlySet<string> = new Set(['mining', 'proxy', 'out_of_memory'])

/** An alert that was not found again for this long is over. */
const overMs = 30_000
/** At the end of the time of grace, of which it leaves the most to end it in. */
const endedMs = 20_000

export interface ShutdownView {
  readonly nowMs: number
  readonly enabled: boolean
  /** Longest time between two looks. */
  readonly lookMs: number
  /** Whether the alert's guest is there, runs and may be stopped. */
  readonly isStoppable: (alert: AlertState) => boolean
}

export type ShutdownStep = 'begin' | 'stop' | 'cancel'

/**
 * What follows from an alert now. A critical one is told, then its guest has a time of grace, and is stopped if it goes
 * on to the end of that.
 */
export function planShutdown(alert: AlertState, view: ShutdownView): ShutdownStep | undefined {
  const { nowMs, enabled, lookMs, isStoppable } = view
  const isDue = enabled && alert.severity === 'critical' && !neverStopped.has(alert.type) && isStoppable(alert)
  const goesOn = (withinMs: number): boolean => alert.lastAtMs >= nowMs - Math.max(withinMs, 2 * lookMs)
  if (alert.action === 'stop_pending') {
    if (!isDue) return 'cancel'
    if (nowMs < alert.stopAtMs) return undefined
    return goesOn(endedMs) ? 'stop' : 'cancel'
  }
  // Its severity stays what it once was: what is found of it after a stop or its end must be critical by itself.
  const isNew = alert.action === '' || alert.criticalAtMs > alert.stopAtMs
  return isDue && isNew && goesOn(overMs) ? 'begin' : undefined
}
