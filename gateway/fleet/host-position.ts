/** A revision in the journal of an agent. The journal is the agent's state database. */
export interface JournalPosition {
  /** Identity of the journal. Empty: the host has not reported yet. */
  readonly epoch: string
  readonly revision: number
}

/** The last state and revision of a host that a gateway process has passed on to clients. */
export interface HostPosition extends JournalPosition {
  readonly id: string
  readonly name: string
  readonly online: boolean
}

/**
 * Returns the revision after which changes in a host's first report are passed to listeners.
 * @param former last position that the previous gateway process reported; undefined: unknown, so no change is passed
 * @returns -1: all changes are passed, because the journal was replaced or restored
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
