import { severities } from '../../shared/abuse.js'
import type { Evidence, Finding, RecordedFlow } from './contract.js'
import { planFloods } from './plan-floods.js'
import { mayGuess, planGuesses } from './plan-guesses.js'
import { planHorizontalScans, planPortScans } from './plan-scans.js'
import { planMining, planProxies, planReflections, planSpam } from './plan-services.js'
import type { Thresholds } from './thresholds.js'
import { groupBy, rateOf, recentRows } from './windows.js'

/** Maximum number of findings of one type in one evaluation. Only the worst ones are reported. */
const mostOfType = 3

/** Finds abuse in the evidence. The worst finding comes first. */
export function detect(evidence: Evidence, thresholds: Thresholds): Finding[] {
  const found = [
    ...planPortScans(evidence, thresholds),
    ...planHorizontalScans(evidence, thresholds),
    ...planGuesses(evidence, thresholds),
    ...planFloods(evidence, thresholds),
    ...planSpam(evidence, thresholds),
    ...planMining(evidence),
    ...planProxies(evidence, thresholds),
    ...planReflections(evidence, thresholds),
  ]
  return [...groupBy(found, ({ type }) => type).values()].flatMap((alike) =>
    alike.toSorted((a, b) => rankOf(b) - rankOf(a)).slice(0, mostOfType),
  )
}

function rankOf({ severity }: Finding): number {
  return severities.indexOf(severity)
}

/** A guest's connections count as failing (`isFailing`) if less than this fraction of them is accepted. */
const mostAccepted = 0.6

function isFailing({ counts, nowMs }: Evidence): boolean {
  const recent = recentRows(counts, nowMs, 60)
  return rateOf(recent, (row) => row.accepted) < mostAccepted * rateOf(recent, (row) => row.opened)
}

/** Time in ms for which a read of the connection tracking table counts as recent. */
const lookedUpMs = 60_000

/**
 * True if a finding must not be reported yet, because the guest's flows must first be read from the connection tracking
 * table. This concerns scans by a guest whose connections are mostly accepted. Only the table shows whether the
 * connections to the scan's targets really failed.
 * @param lookedAtMs time in ms since 1970 at which the guest's flows were last read; 0: never
 */
export function isUnchecked({ type }: Finding, evidence: Evidence, lookedAtMs: number): boolean {
  const isScan = type === 'port_scan' || type === 'horizontal_scan'
  return isScan && lookedAtMs < evidence.nowMs - lookedUpMs && !isFailing(evidence)
}

/**
 * True if the guest would cause a finding if all its flows with an unknown outcome had failed. The outcomes of these
 * flows must then be read from the connection tracking table, because sampled packets do not show them.
 */
export function isSuspect(evidence: Evidence, thresholds: Thresholds): boolean {
  const recent = recentRows(evidence.rows, evidence.nowMs, 120)
  const fails = isFailing(evidence)
  const supposed = recent.flatMap((row): RecordedFlow[] => {
    if (row.outcome !== 'opened') return [row]
    return row.protocol === 'tcp' && !fails ? [] : [{ ...row, outcome: 'unanswered' }]
  })
  const feared = { ...evidence, rows: supposed }
  return (
    planPortScans(feared, thresholds).length > 0 ||
    planHorizontalScans(feared, thresholds).length > 0 ||
    mayGuess(evidence, thresholds)
  )
}
