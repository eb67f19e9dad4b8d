import type { Evidence, Finding, RecordedFlow } from './contract.js'
import type { Thresholds } from './thresholds.js'
import { groupBy, levelOf, sum, recentRows } from './windows.js'

/*
 * Password guessing consists of many short connections to a login port. A refused or unanswered connection is not a
 * guess. A reply that is longer than the reply to a wrong password means that the login succeeded, so this connection
 * is not a guess either. Only flows from the connection tracking table have a number of reply bytes, so only answered
 * flows from this table count.
 */

/** An SSH server sends more bytes than this before it refuses a password. With fewer bytes, no login was attempted. */
const sshGreetingBytes = 1000
const sshPort = 22

export function planGuesses(evidence: Evidence, thresholds: Thresholds): Finding[] {
  const { ports, database_ports: databases } = thresholds.brute_force
  const rows = loginsOf(evidence, thresholds).filter((row) => isShort(row, thresholds))
  return [...groupBy(rows, ({ port }) => port)].flatMap(([port, ofPort]): Finding[] => {
    const byTarget = groupBy(ofPort, ({ target }) => target)
    const wide = judgeMany(port, byTarget.size, thresholds)
    if (wide) return [wide]
    // Many connections to one database are normal, because an application can connect to its database very often.
    if (databases.includes(port) && !ports.includes(port)) return []
    return [...byTarget].flatMap(([target, guesses]) =>
      judgeOne({ target, port, guesses, nowMs: evidence.nowMs }, thresholds),
    )
  })
}

/** True if the guest opened so many connections to login ports that their outcomes must be looked up. */
export function mayGuess(evidence: Evidence, thresholds: Thresholds): boolean {
  const { medium, high_targets: targets, database_ports: databases } = thresholds.brute_force
  const rows = loginsOf(evidence, thresholds).filter(({ outcome }) => outcome === 'opened')
  return [...groupBy(rows, ({ port }) => port)].some(([port, ofPort]) => {
    const byTarget = groupBy(ofPort, ({ target }) => target)
    if (byTarget.size >= targets / 5) return true
    if (databases.includes(port)) return false
    return [...byTarget.values()].some((asked) => sum(recentRows(asked, evidence.nowMs, 120), countOf) >= medium / 2)
  })
}

function loginsOf({ rows, nowMs }: Evidence, { brute_force: levels }: Thresholds): RecordedFlow[] {
  return recentRows(rows, nowMs, 300).filter(
    ({ protocol, port }) => protocol === 'tcp' && (levels.ports.includes(port) || levels.database_ports.includes(port)),
  )
}

function isShort({ outcome, port, replyBytes }: RecordedFlow, { brute_force: levels }: Thresholds): boolean {
  if (outcome !== 'answered' || replyBytes === undefined || replyBytes >= levels.reply_bytes) return false
  return port !== sshPort || replyBytes >= sshGreetingBytes
}

const countOf = ({ count }: RecordedFlow): number => count

interface Guesses {
  readonly target: string
  readonly port: number
  readonly guesses: readonly RecordedFlow[]
  readonly nowMs: number
}

function judgeOne({ target, port, guesses, nowMs }: Guesses, { brute_force: levels }: Thresholds): Finding[] {
  const [minute, two] = [60, 120].map((seconds) => sum(recentRows(guesses, nowMs, seconds), countOf)) as [
    number,
    number,
  ]
  const severity = levelOf(['high', two >= levels.high], ['medium', minute >= levels.medium])
  if (severity === undefined) return []
  const detail = `${minute} short login connections to ${target}, port ${port}, within 60 s, ${two} within 120 s`
  return [{ type: 'brute_force', severity, target, port, detail }]
}

function judgeMany(port: number, targets: number, { brute_force: levels }: Thresholds): Finding | undefined {
  const severity = levelOf(['critical', targets >= levels.critical_targets], ['high', targets >= levels.high_targets])
  if (severity === undefined) return undefined
  const detail = `short login connections to ${targets} targets, port ${port}, within 300 s`
  return { type: 'brute_force', severity, target: '*', port, detail }
}
