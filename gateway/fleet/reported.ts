import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** A guest as an agent reported it, and where it lives. */
export interface GuestView {
  readonly hostId: string
  readonly guest: Guest
  /** False while its host is away: its status is then shown as `unknown`. */
  readonly online: boolean
  /** Room for what a reader makes of it and wants to find again; whoever uses it checks what it was made from. */
  shown?: unknown
}

export interface OperationView {
  readonly hostId: string
  readonly operation: Operation
}
