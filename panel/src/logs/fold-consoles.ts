import type { AuditEntry, TimelineEntry } from '../api/types.ts'

/** True for entries about console sessions. The timeline hides them unless the user wants to see them. */
export function isConsole({ kind, action }: Pick<TimelineEntry, 'kind' | 'action'>): boolean {
  return kind === 'change' && action.startsWith('console.')
}

/**
 * Keeps one entry for each console session. For an ended session, this is the entry of its end, which contains the
 * duration. For an open session, it is the entry of its beginning.
 * @param entries newest first
 */
export function foldConsoles<Entry extends Pick<TimelineEntry, 'kind' | 'action' | 'status' | 'user' | 'address'>>(
  entries: readonly Entry[],
): Entry[] {
  const ended = new Map<string, number>()
  return entries.filter((entry) => {
    const { action, status, user, address } = entry
    if (!isConsole(entry) || status !== 'success') return true
    const who = `${user} ${address}`
    const count = ended.get(who) ?? 0
    if (action === 'console.close') ended.set(who, count + 1)
    if (action !== 'console.open' || count === 0) return true
    ended.set(who, count - 1)
    return false
  })
}

/** Keeps one entry of the audit log for each console session, like `foldConsoles`. @param entries newest first */
export function foldAudit<Entry extends Pick<AuditEntry, 'action' | 'success' | 'user' | 'address' | 'target'>>(
  entries: readonly Entry[],
): Entry[] {
  const changes = entries
    .filter(({ action, success }) => action !== 'console.ticket' || !success)
    .map((entry) => ({
      kind: 'change' as const,
      action: entry.action,
      status: entry.success ? 'success' : 'failure',
      user: entry.user,
      // Sessions of several guests by one user are different sessions.
      address: `${entry.address} ${entry.target}`,
      entry,
    }))
  return foldConsoles(changes).map(({ entry }) => entry)
}
