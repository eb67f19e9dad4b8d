import type { AuditEntry, TimelineEntry } from '../api/types.ts'

/** True for entries about console sessions. The timeline hides them unless the user wants to see them. */
export function isConsole({ kind, action }: Pick<TimelineEntry, 'kind' | 'action'>): boolean {
  return kind === 'change' && action.startsWith('console.')
}

type Step = Pick<TimelineEntry, 'kind' | 'action' | 'status' | 'user' | 'address' | 'time' | 'detail'>

/** Maximum seconds between the recorded beginning of a session and the one that results from its duration. */
const toleranceSeconds = 5

/**
 * Keeps one entry for each console session. For an ended session, this is the entry of its end, which contains the
 * duration. For an open session, it is the entry of its beginning.
 * @param entries newest first
 */
export function foldConsoles<Entry extends Step>(entries: readonly Entry[]): Entry[] {
  /** Ended sessions whose beginning is not found yet, by user: seconds since 1970, or NaN if unknown. */
  const ended = new Map<string, number[]>()
  return entries.filter((entry) => {
    if (!isConsole(entry) || entry.status !== 'success') return true
    const who = `${entry.user} ${entry.address}`
    const begun = ended.get(who) ?? []
    if (entry.action === 'console.close') ended.set(who, [...begun, beginningOf(entry)])
    if (entry.action !== 'console.open') return true
    const at = indexOfBeginning(begun, secondsOf(entry.time))
    if (at < 0) return true
    begun.splice(at, 1)
    return false
  })
}

/** @returns when an ended session began, in seconds since 1970. NaN: the entry contains no duration */
function beginningOf({ time, detail }: Step): number {
  return secondsOf(time) - Number(/, (\d+) s, \d+ bytes in, \d+ out, \w+$/.exec(detail)?.[1] ?? NaN)
}

/** Finds the session that began at this time, or else one with an unknown beginning. @returns -1: not found */
function indexOfBeginning(begun: readonly number[], at: number): number {
  const distances = begun.map((one) => Math.abs(one - at)).filter((one) => one <= toleranceSeconds)
  const nearest = Math.min(...distances)
  return begun.findIndex((one) => (distances.length > 0 ? Math.abs(one - at) === nearest : Number.isNaN(one)))
}

/** The time zone does not matter, because only differences are compared. */
function secondsOf(time: string): number {
  return Date.parse(`${time.replace(' ', 'T')}Z`) / 1000
}

/**
 * Keeps one entry of the audit log for each console session, like `foldConsoles`. Hides the ticket of a session that is
 * among the entries.
 * @param entries newest first
 */
export function foldAudit<Entry extends Omit<AuditEntry, 'user' | 'key_id' | 'request_id'>>(
  entries: readonly Entry[],
): Entry[] {
  const changes = withoutUsedTickets(entries).map((entry) => ({
    kind: 'change' as const,
    action: entry.action,
    status: entry.success ? 'success' : 'failure',
    user: entry.by,
    // Sessions of several guests by one user are different sessions.
    address: `${entry.address} ${entry.target}`,
    time: entry.time,
    detail: entry.detail,
    entry,
  }))
  return foldConsoles(changes).map(({ entry }) => entry)
}

/** Each opening of a console uses the latest ticket before it. Tickets that nobody used remain. */
function withoutUsedTickets<Entry extends Pick<AuditEntry, 'action' | 'success' | 'by' | 'target'>>(
  entries: readonly Entry[],
): Entry[] {
  const opened = new Map<string, number>()
  return entries.filter(({ action, success, by, target }) => {
    const who = `${by} ${target}`
    const count = opened.get(who) ?? 0
    if (action === 'console.open') opened.set(who, count + 1)
    if (action !== 'console.ticket' || !success || count === 0) return true
    opened.set(who, count - 1)
    return false
  })
}
