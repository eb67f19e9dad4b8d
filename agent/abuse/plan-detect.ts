import { severities } from '../../shared/abuse.js'
import type { Evidence, Finding, FlowRow } from './contract.js'
import { planFloods } from './plan-floods.js'
import { mayGuess, planGuesses } from './plan-guesses.js'
import { planHorizontalScans, planPortScans } from './plan-scans.js'
import { planMining, planProxies, planReflections, planSpam } from './plan-services.js'
import type { Thresholds } from './thresholds.js'
import { groupBy, rateOf, recentRows } from './windows.js'

/** Findings of one type at one look: the worst. */
const mostOfType = 3

/** What harms others, as far as the evidence shows it; the worst first. */
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

/** Below it so many openings fail that it is worth to look which. */
const mostAccepted = 0.6

function isFailing({ counts, nowMs }: Evidence): boolean {
  const recent = recentRows(counts, nowMs, 60)
  return rateOf(recent, (row) => row.accepted) < mostAccepted * rateOf(recent, (row) => row.opened)
}

/** How long it is known what else was answered. */
const lookedUpMs = 60_000

/**
 * Whether a finding waits until the host's table was asked: where most is accepted, only that tells a scan from a crawler
 * that meets dead links.
 * @param lookedAtMs when its flows were last looked up; 0: never
 */
export function isUnchecked({ type }: Finding, evidence: Evidence, lookedAtMs: number): boolean {
  const isScan = type === 'port_scan' || type === 'horizontal_scan'
  return isScan && lookedAtMs < evidence.nowMs - lookedUpMs && !isFailing(evidence)
}

/**
 * Whether the guest's flows are worth a look into the host's table: samples alone say what it asked for, not what became
 * of it. They are judged as if all had failed that could have.
 */
export function isSuspect(evidence: Evidence, thresholds: Thresholds): boolean {
  const recent = recentRows(evidence.rows, evidence.nowMs, 120)
  const fails = isFailing(evidence)
  const supposed = recent.flatMap((row): FlowRow[] => {
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
