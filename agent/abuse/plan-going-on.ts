import type { Evidence, Finding } from './contract.js'
import { planSamples, type AlertState } from './plan-merge.js'

/** A guest counts as continuing if it was seen within this time, or within one and a half evaluation intervals. */
const freshSeconds = 15

/**
 * When a guest was last seen doing what a finding reports. Findings cover minutes, so the same one is found long after
 * its end.
 * @returns ms since 1970; 0: only the outcome was seen, not the guest's own action
 */
export function lastSeenMs({ rows, counts }: Evidence, finding: Finding): number {
  if (finding.type === 'ddos') return counts.at(-1)?.atMs ?? 0
  if (finding.type === 'reflection') return counts.findLast(({ amplified }) => amplified.has(finding.port))?.atMs ?? 0
  // An unanswered flow is noted long after it began, and an answered one when the host's table is read.
  const seen = rows.filter(({ outcome }) => outcome === 'opened' || outcome === 'refused')
  return planSamples(seen, finding).at(-1)?.atMs ?? 0
}

/**
 * True if a finding shows that the guest continues the reported abuse. Otherwise a guest that stopped at once would be
 * found until the stop, and reported again after the stop was lifted.
 */
export function isNews(
  own: readonly Pick<AlertState, 'type' | 'action'>[],
  finding: Finding,
  { view, lookMs }: { readonly view: Evidence; readonly lookMs: number },
): boolean {
  const isActedOn = own.some(({ type, action }) => type === finding.type && action !== '')
  if (!isActedOn) return true
  const seconds = Math.max(freshSeconds, (1.5 * lookMs) / 1000)
  return lastSeenMs(view, finding) > view.nowMs - seconds * 1000
}
