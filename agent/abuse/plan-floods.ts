import type { Evidence, Finding, RecordedFlow } from './contract.js'
import type { Thresholds } from './thresholds.js'
import { largestShare, levelOf, portOf, rateOf, serviceOf, sum, recentRows } from './windows.js'

/** A flood sends at least this fraction of a guest's traffic to one target. */
const oneTarget = 0.8
/** Maximum ratio of different ports to connections in a flood. A higher ratio indicates a port scan. */
const manyPorts = 0.5
/** Minimum duration of a critical flood in seconds: three evaluations, which are about ten seconds apart. */
const lastingSeconds = 25
/** In a flood, a guest sends at least this many packets for each packet that it receives. */
const packetRatio = 20

export function planFloods(evidence: Evidence, { ddos: levels }: Thresholds): Finding[] {
  const { nowMs, counts } = evidence
  const last = counts.slice(-1)
  if (last[0] === undefined || last[0].atMs < nowMs - 15_000) return []
  const rows = recentRows(evidence.rows, nowMs, 15).filter(({ outcome }) => outcome !== 'refused')
  return [
    ...planOpenings(
      rows,
      rateOf(last, ({ opened, accepted }) => Math.max(0, opened - accepted)),
      levels,
    ),
    ...planPackets(evidence, rows, levels),
    ...planForged(
      rateOf(last, ({ forged }) => forged),
      levels,
    ),
  ]
}

type Levels = Thresholds['ddos']

function planOpenings(rows: readonly RecordedFlow[], rate: number, levels: Levels): Finding[] {
  const severity = levelOf(['critical', rate >= levels.critical_openings], ['high', rate >= levels.high_openings])
  const tcp = rows.filter(({ protocol }) => protocol === 'tcp')
  const [target, share] = largestShare(tcp, (row) => row.target)
  if (severity === undefined || share < oneTarget || isSearch(tcp, target)) return []
  const [service, most] = largestShare(tcp, serviceOf)
  const port = most >= oneTarget ? portOf(service) : 0
  const detail = `${Math.round(rate)} unanswered connection attempts per second, most of them to ${target}`
  return [{ type: 'ddos', severity, target, port, detail }]
}

function isSearch(rows: readonly RecordedFlow[], target: string): boolean {
  const ofTarget = rows.filter((row) => row.target === target)
  const ports = new Set(ofTarget.map(({ port }) => port)).size
  return ports > manyPorts * sum(ofTarget, ({ count }) => count)
}

function planPackets({ counts }: Evidence, rows: readonly RecordedFlow[], levels: Levels): Finding[] {
  const last = counts.slice(-1)
  const [sent, received] = [rateOf(last, (row) => row.sent), rateOf(last, (row) => row.received)]
  const long = recentRows(counts, (last[0]?.atMs ?? 0) + 1, 30)
  const lasting =
    sum(long, ({ seconds }) => seconds) >= lastingSeconds && rateOf(long, (row) => row.sent) >= levels.critical_packets
  const severity = levelOf(['critical', lasting], ['high', sent >= levels.high_packets])
  const [target, share] = largestShare(rows, (row) => row.target)
  if (severity === undefined || sent < packetRatio * received || share < oneTarget) return []
  const [service, most] = largestShare(rows, serviceOf)
  const port = most >= oneTarget ? portOf(service) : 0
  const detail = `${Math.round(sent)} packets per second sent, ${Math.round(received)} received, most of them to ${target}`
  return [{ type: 'ddos', severity, target, port, detail }]
}

function planForged(rate: number, levels: Levels): Finding[] {
  if (rate < levels.forged) return []
  const detail = `${Math.round(rate)} packets per second with forged source addresses, all dropped`
  return [{ type: 'ddos', severity: 'high', target: '*', port: 0, detail }]
}
