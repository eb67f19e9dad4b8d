/** A revision in the journal of an agent. */
export interface JournalPosition {
  /** Identity of the journal, which changes when the journal is replaced. Empty: the host has not reported yet. */
  readonly epoch: string
  readonly revision: number
}

/** Last state and revision of a host that the previous gateway process has passed on to clients. */
export interface HostPosition extends JournalPosition {
  readonly id: string
  readonly name: string
  readonly online: boolean
}

/**
 * Returns a revision for the first report of a host. Listeners get only the report's changes with a higher revision.
 * @param former last position that the previous gateway process reported; undefined: not known
 * @returns -1: listeners get all changes, because the journal was replaced or restored; undefined: listeners get none
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
