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
 * Decides which changes in a host's first report are passed to listeners: those with a revision above the result.
 * @param former last position that the previous gateway process reported; undefined: not known
 * @returns -1: all changes, because the journal was replaced or restored; undefined: no changes
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
