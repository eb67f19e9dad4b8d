import type { AlertState } from './plan-merge.js'

/** Types of alerts that harm nobody else. They never stop a guest. */
const neverStopped: ReadonlySet<string> = new Set(['mining', 'proxy', 'out_of_memory'])

/** An alert that was not found again for this long is over. */
const overMs = 30_000
/** A guest is stopped only if it was seen within this time before the end of the grace period. */
const endedMs = 20_000

export interface ShutdownView {
  readonly nowMs: number
  readonly enabled: boolean
  /** Longest time between two evaluations. */
  readonly lookMs: number
  /** True if the alert's guest exists, runs and may be stopped. */
  readonly isStoppable: (alert: AlertState) => boolean
}

export type ShutdownStep = 'begin' | 'stop' | 'cancel'

/**
 * The next step for an alert. A critical alert is reported, then its guest has a grace period. It is stopped if it
 * continues to the end of that period.
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
  // The severity stays at its highest value. Findings after a stop or after the end must be critical by themselves.
  const isNew = alert.action === '' || alert.criticalAtMs > alert.stopAtMs
  return isDue && isNew && goesOn(overMs) ? 'begin' : undefined
}
