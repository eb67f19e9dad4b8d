import type { Evidence, Finding } from './contract.js'
import { planSamples, type AlertState } from './plan-merge.js'

/** A guest that goes on has been seen doing so within this time, or one and a half looks. */
const freshSeconds = 15

/**
 * When a guest was last seen doing what a finding tells of. Findings look back for minutes: the same is found again long
 * after its end.
 * @returns ms since 1970; 0: not seen itself, only what became of it
 */
export function lastSeenMs({ rows, counts }: Evidence, finding: Finding): number {
  if (finding.type === 'ddos') return counts.at(-1)?.atMs ?? 0
  if (finding.type === 'reflection') return counts.findLast(({ amplified }) => amplified.has(finding.port))?.atMs ?? 0
  // That a flow got no answer is noted long after it began, and what was answered when the host's table is looked at.
  const seen = rows.filter(({ outcome }) => outcome === 'opened' || outcome === 'refused')
  return planSamples(seen, finding).at(-1)?.atMs ?? 0
}

/**
 * Whether a finding says that its guest goes on with what it was told of. Who ended it at once would be found again until
 * the stop, and be told of again after it was lifted.
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
