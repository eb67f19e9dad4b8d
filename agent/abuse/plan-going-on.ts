import type { Evidence, Finding } from './contract.js'
import { planSamples, type AlertState } from './plan-merge.js'

/**
 * The abuse of a finding counts as continuing if its last packet is at most this many seconds old. If evaluations are
 * rare, the limit is 1.5 times the interval between evaluations.
 */
const freshSeconds = 15

/**
 * Returns when a guest last sent packets that belong to a finding. These packets can be minutes old, because an
 * evaluation covers several minutes.
 * @returns ms since 1970; 0 if the recorded flows do not show when the guest sent packets
 */
export function lastSeenMs({ rows, counts }: Evidence, finding: Finding): number {
  if (finding.type === 'ddos') return counts.at(-1)?.atMs ?? 0
  if (finding.type === 'reflection') return counts.findLast(({ amplified }) => amplified.has(finding.port))?.atMs ?? 0
  // Only opened and refused flows have the time of a packet. Other flows come from the connection tracking table.
  const seen = rows.filter(({ outcome }) => outcome === 'opened' || outcome === 'refused')
  return planSamples(seen, finding).at(-1)?.atMs ?? 0
}

/**
 * True if a finding must be reported. If the guest was stopped for this type of abuse, or such a stop is planned, only
 * recent packets count. Earlier packets can be from before the stop.
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
