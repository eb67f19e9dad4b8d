import type { Evidence, Finding } from './contract.js'
import type { Thresholds } from './thresholds.js'
import { groupBy, levelOf, sum, recentRows } from './windows.js'

/** The threshold for sent mail rises by this factor if the guest's own settings open port 25. */
const mailServerFactor = 10

export function planSpam(evidence: Evidence, { spam: levels }: Thresholds): Finding[] {
  const { nowMs, mail, counts } = evidence
  const factor = evidence.isMailServer ? mailServerFactor : 1
  const recent = recentRows(mail, nowMs, 600)
  const flows = Math.max(
    sum(recent, ({ count }) => count),
    sum(recentRows(counts, nowMs, 600), (row) => row.mail),
  )
  const targets = new Set(recent.map(({ target }) => target))
  const hourly = new Set(mail.map(({ target }) => target)).size
  const severity = levelOf(
    // If port 25 is closed, mail reaches nobody. Sending mail is then not critical, so the guest need not be stopped.
    [
      'critical',
      !evidence.isMailClosed && (flows >= levels.critical * factor || hourly >= levels.critical_targets * factor),
    ],
    ['high', flows >= levels.high * factor || targets.size >= levels.high_targets * factor],
    ['medium', flows >= levels.medium * factor || targets.size >= levels.medium_targets * factor],
  )
  const isStill = recentRows(mail, nowMs, 60).length > 0
  if (severity === undefined || !isStill) return []
  const [target = '*'] = targets.size === 1 ? targets : ['*']
  const detail = `${flows} mails to ${targets.size} servers within 10 min, and mails to ${hourly} servers within an hour`
  return [{ type: 'spam', severity, target, port: 25, detail }]
}

/** Returns one finding for each mining pool. A connection to the usual port of a pool does not prove mining. */
export function planMining({ claims, nowMs }: Evidence): Finding[] {
  const told = recentRows(claims, nowMs, 60).filter(({ kind }) => kind !== 'proxy')
  const pools = new Map(told.map((claim) => [`${claim.target} ${claim.port}`, claim]))
  return [...pools.values()].map(({ kind, target, port }) => ({
    ...({ type: 'mining', severity: 'high', target, port } as const),
    detail:
      kind === 'stratum'
        ? `the guest requests work from ${target}, port ${port}, as mining programs do`
        : `the guest looked up the name of a mining pool at the DNS server ${target}`,
  }))
}

export function planProxies({ claims, nowMs }: Evidence, { proxy: levels }: Thresholds): Finding[] {
  const told = recentRows(claims, nowMs, 600).filter(({ kind }) => kind === 'proxy')
  const byPort = groupBy(told, ({ port }) => port)
  return [...byPort].flatMap(([port, ofPort]): Finding[] => {
    if (recentRows(ofPort, nowMs, 60).length === 0) return []
    const clients = new Set(ofPort.map(({ target }) => target))
    const severity = clients.size >= levels.high_clients ? 'high' : 'medium'
    const [target = '*'] = clients.size === 1 ? clients : ['*']
    const ways = [...new Set(ofPort.map(({ way }) => way))].join(', ')
    const detail = `an open proxy (${ways}) at port ${port}, used by ${clients.size} clients within 10 min`
    return [{ type: 'proxy', severity, target, port, detail }]
  })
}

/** Minimum period in seconds over which rates are averaged. The period is longer if evaluations are rare. */
const windowSeconds = 20
const megabit = 125_000

/** Finds services whose answers are much larger than the requests, as in a reflection attack on a victim. */
export function planReflections({ counts, nowMs }: Evidence, { reflection: levels }: Thresholds): Finding[] {
  const recent = recentRows(counts, nowMs, windowSeconds)
  const seconds = Math.max(
    windowSeconds,
    sum(recent, (row) => row.seconds),
  )
  const ports = new Set(recent.flatMap(({ amplified }) => [...amplified.keys()]))
  return [...ports].flatMap((port): Finding[] => {
    const asked = sum(recent, ({ amplified }) => amplified.get(port)?.askedBytes ?? 0)
    const served = sum(recent, ({ amplified }) => amplified.get(port)?.servedBytes ?? 0)
    const mbps = served / seconds / megabit
    const severity = levelOf(
      ['critical', mbps >= levels.critical_mbps],
      ['high', mbps >= levels.high_mbps],
      ['medium', mbps >= levels.medium_mbps],
    )
    if (severity === undefined || served < levels.ratio * asked) return []
    const detail = `answers of UDP port ${port}: ${Math.round(mbps)} Mbit/s, ${Math.round(served / Math.max(asked, 1))} times the size of the requests`
    return [{ type: 'reflection', severity, target: '*', port, detail }]
  })
}
