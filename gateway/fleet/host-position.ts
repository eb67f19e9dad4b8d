/** A revision in the journal of an agent. The journal is the agent's state database. */
export interface JournalPosition {
  /** Identity of the journal. Empty: the host has not reported yet. */
  readonly epoch: string
  readonly revision: number
}

/** A host as a gateway process last reported it to clients. */
export interface HostPosition extends JournalPosition {
  readonly id: string
  readonly name: string
  readonly online: boolean
}

/**
 * Returns the revision above which changes in the first report of a host are new for clients.
 * @param former last position that the previous gateway process reported; undefined: none, so nothing is new
 * @returns -1: everything is new, because the journal was replaced or restored
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
