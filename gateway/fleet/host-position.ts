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
 * Returns a revision. Changes in the first report of a host with a higher revision are passed to listeners.
 * @param former last position that the previous gateway process reported; undefined: unknown, so no change is passed
 * @returns -1: all changes are passed, because the journal was replaced or restored
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
