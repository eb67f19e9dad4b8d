import type { AlertState } from './plan-merge.js'

/** Types of alerts that never stop a guest, because the behaviour harms nobody else. */
const neverStopped: ReadonlySet<string> = new Set(['mining', 'proxy', 'out_of_memory'])

/** Time in ms without a finding after which the abuse of an alert counts as ended. */
const overMs = 30_000
/** Maximum age in ms of the last finding at the end of the grace period. If the finding is older, no stop follows. */
const endedMs = 20_000

export interface ShutdownView {
  readonly nowMs: number
  readonly enabled: boolean
  /** Longest time in ms between two evaluations of the guest's traffic. */
  readonly lookMs: number
  /** True if the alert's guest exists, runs and is allowed to be stopped. */
  readonly isStoppable: (alert: AlertState) => boolean
}

export type ShutdownStep = 'begin' | 'stop' | 'cancel'

/**
 * Returns the next step for an alert. A critical alert is reported, and a grace period begins. If the abuse still
 * continues at the end of the grace period, the guest is stopped.
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
  // An alert stays critical after a stop. Only a critical finding that is newer than the stop leads to another stop.
  const isNew = alert.action === '' || alert.criticalAtMs > alert.stopAtMs
  return isDue && isNew && goesOn(overMs) ? 'begin' : undefined
}
