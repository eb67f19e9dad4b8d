/** A revision in an agent's journal. */
export interface JournalPosition {
  /** Identity of the journal; empty: the host has not reported yet. */
  readonly epoch: string
  readonly revision: number
}

/** A host as a process last reported it to clients. */
export interface HostPosition extends JournalPosition {
  readonly id: string
  readonly name: string
  readonly online: boolean
}

/**
 * The revision after which changes of a host are news, at its first report.
 * @param former position of the former process; undefined: it did not know the host, so nothing is news
 * @returns -1: everything is news, since the journal was replaced or restored
 */
export function planNewsAfter(former: JournalPosition | undefined, now: JournalPosition): number | undefined {
  if (former === undefined) return undefined
  return former.epoch === now.epoch && former.revision <= now.revision ? former.revision : -1
}
