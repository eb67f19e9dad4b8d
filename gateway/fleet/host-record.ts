/** A host as the store keeps it: what the administrator said, and which certificates were given to it. */
export interface HostRecord {
  readonly id: string
  /** Grows with every change: of two readings the higher is the later. */
  readonly version: number
  readonly name: string
  /** host:port. */
  readonly address: string
  readonly draining: boolean
  readonly createdAtMs: number
  /** Serial numbers of the certificates in force, newest last; none: not joined. */
  readonly serials: readonly string[]
  /** End of the newest certificate; 0: not joined. */
  readonly certificateNotAfterMs: number
}
