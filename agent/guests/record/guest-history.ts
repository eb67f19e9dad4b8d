/** Names a transfer: a move, or an increment of a standby. */
export interface HistoryTransfer {
  /** Id of the move, or of the standby. */
  readonly transferId: string
  readonly uuid: string
}

/** Position up to which a guest's history was sent: revision of the sender's journal, and time in ms since 1970. */
export interface HistoryPosition {
  readonly revision: number
  readonly atMs: number
}

/** History that another host has. */
export interface SentHistory {
  /** Revision of this host's journal up to which the history was sent. */
  readonly revision: number
  /** Id of an operation that was not sent. */
  readonly except: string
}

/** The ended tasks, alerts and usage of guests. They move with a guest, but are not in its record. */
export interface GuestHistory {
  /** Returns the part of a guest's history after a position, for another host. @param except operation that stays */
  collect(uuid: string, after: HistoryPosition, except: string): string
  /** Removes sent tasks and alerts of a guest that has left. Joins the caller's transaction. */
  removeLeft(uuid: string, sent: SentHistory): void
  /** Returns the position up to which this host has received a guest's history. */
  position(transfer: HistoryTransfer): HistoryPosition
  /**
   * Stores a part of a guest's history until the guest belongs to this host. Can be repeated. Joins the caller's
   * transaction.
   * @throws {BerthError} `bad_stream`
   */
  receive(transfer: HistoryTransfer, raw: string): void
  /** Adds the received history to a guest that belongs to this host now. Joins the caller's transaction. */
  adopt(transfer: HistoryTransfer): void
  /** Deletes received history that nothing needs any more. Joins the caller's transaction. */
  prune(): void
}
