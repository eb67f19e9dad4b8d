import type { Evidence, Finding, RecordedFlow } from './contract.js'
import type { Thresholds } from './thresholds.js'
import { distinct, isFailed, levelOf, portOf, serviceOf, recentRows } from './windows.js'

/*
 * Scans are recognized by failed flows: flows that were refused or not answered. A guest whose flows succeed is not
 * scanning, even if it contacts many targets.
 */

/** A port scan is reported if at least this fraction of a target's contacted ports refuse or do not answer. */
const failedPorts = 0.5

export function planPortScans(evidence: Evidence, { port_scan: levels }: Thresholds): Finding[] {
  const rows = recentRows(evidence.rows, evidence.nowMs, 300).filter(({ port }) => port > 0)
  const failed = rows.filter(isFailed)
  const long = distinct(failed, targetOf, serviceOf)
  const short = distinct(recentRows(failed, evidence.nowMs, 60), targetOf, serviceOf)
  const answered = distinct(rows.filter(isAnswered), targetOf, serviceOf)
  return [...long].flatMap(([target, services]): Finding[] => {
    const [recent, all] = [short.get(target)?.size ?? 0, services.size]
    const severity = levelOf(
      ['critical', all >= levels.critical && recent > 0],
      ['high', recent >= levels.high],
      ['medium', recent >= levels.medium],
    )
    const open = countNew(answered.get(target), services)
    if (severity === undefined || all < failedPorts * (all + open)) return []
    const detail = `${recent} ports of ${target} refused or did not answer within 60 s, ${all} within 300 s`
    return [{ type: 'port_scan', severity, target, port: 0, detail }]
  })
}

/** A horizontal scan is found if at least this fraction of the targets at one port refuse or do not answer. */
const failedTargets = 0.7
const fewPorts = 3
const mostOfAll = 0.6
/** Factor for the threshold at ports of peer-to-peer programs, because such programs contact many offline peers. */
const peerFactor = 10

export function planHorizontalScans(evidence: Evidence, { horizontal_scan: levels }: Thresholds): Finding[] {
  const rows = recentRows(evidence.rows, evidence.nowMs, 300)
  const failed = rows.filter(isFailed)
  const long = distinct(failed, serviceOf, targetOf)
  const short = distinct(recentRows(failed, evidence.nowMs, 60), serviceOf, targetOf)
  const answered = distinct(rows.filter(isAnswered), serviceOf, targetOf)
  if (!isConcentrated(short)) return []
  return [...long].flatMap(([service, targets]): Finding[] => {
    const [recent, all] = [short.get(service)?.size ?? 0, targets.size]
    const isPeer = levels.peer_ports.includes(portOf(service))
    const factor = isPeer ? peerFactor : 1
    const severity = levelOf(
      ['critical', !isPeer && all >= levels.critical && recent > 0],
      ['high', !isPeer && recent > 0 && (recent >= levels.high || all >= levels.high_slow)],
      ['medium', recent >= levels.medium * factor],
    )
    const found = countNew(answered.get(service), targets)
    if (severity === undefined || all < failedTargets * (all + found)) return []
    const detail = `${recent} targets at ${nameOf(service)} refused or did not answer within 60 s, ${all} within 300 s`
    return [{ type: 'horizontal_scan', severity, target: '*', port: portOf(service), detail }]
  })
}

function isConcentrated(targets: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  const sizes = [...targets.values()].map(({ size }) => size).sort((a, b) => b - a)
  const total = (list: readonly number[]): number => list.reduce((all, size) => all + size, 0)
  return total(sizes.slice(0, fewPorts)) >= mostOfAll * total(sizes)
}

function isAnswered({ outcome }: RecordedFlow): boolean {
  return outcome === 'answered'
}

const targetOf = ({ target }: RecordedFlow): string => target

/** Returns the number of `values` that `others` does not contain. */
function countNew(values: ReadonlySet<string> | undefined, others: ReadonlySet<string>): number {
  return [...(values ?? [])].filter((value) => !others.has(value)).length
}

function nameOf(service: string): string {
  const [protocol, port] = service.split(' ')
  return port === '0' ? `${protocol}` : `${protocol} port ${port}`
}
