/** Violations of what the documentation promises. A run without violations leaves all lists empty. */
export class Findings {
  /** Acknowledged writes that are missing. */
  readonly lost: string[] = []
  /** Writes and steps of operations that were done twice. */
  readonly twice: string[] = []
  /** Reads that accepted a deleted key or refused a new one, after this deletion or creation was acknowledged. */
  readonly stale: string[] = []
  /** Events that arrived several times with different ids. */
  readonly duplicated: string[] = []
  /** Calls with an old epoch that an agent accepted. */
  readonly fences: string[] = []
  /** Refusals and answers that a client does not expect. */
  readonly unexpected: string[] = []

  get count(): number {
    return this.lists.reduce((sum, [, list]) => sum + list.length, 0)
  }

  /** All lists with their names. */
  get lists(): [string, string[]][] {
    return Object.entries({ ...this })
  }
}
