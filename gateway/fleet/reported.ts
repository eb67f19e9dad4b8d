import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** A guest as its agent reported it, and its host. */
export interface GuestView {
  readonly hostId: string
  readonly guest: Guest
  /** False while its host is away: its status is then shown as `unknown`. */
  readonly online: boolean
  /** Cache for what a reader derived from it; the reader checks what that was made from. */
  shown?: unknown
}

export interface OperationView {
  readonly hostId: string
  readonly operation: Operation
}
