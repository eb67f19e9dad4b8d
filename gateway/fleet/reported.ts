import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Alert } from '../../proto/gen/berth/agent/v1/security.js'
import type { InstallReport } from '../join/installer.js'
import type { PublicAddress } from './public-address.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** A guest as its agent reported it, and its host. */
export interface GuestView {
  readonly hostId: string
  readonly guest: Guest
  /** False while its host is away: its status is then shown as `unknown`. */
  readonly online: boolean
  /** Public address of its host: a name or an address; "": not known. */
  readonly hostAddress: string
  /** Cache for data that a reader derived from it; the reader checks that it is current. */
  shown?: unknown
}

export interface OperationView {
  readonly hostId: string
  readonly operation: Operation
}

/** An alert of a host about a guest, which may be deleted by now. */
export interface AlertView {
  readonly hostId: string
  readonly alert: Alert
}

type HostState = 'pending' | 'online' | 'offline'

/** A host: its record in the store and what its agent reports. */
export interface HostView {
  readonly id: string
  readonly name: string
  /** host:port that the gateway connects to; "": it becomes known when the agent joins. */
  readonly address: string
  /** Last step that the installation script reported; undefined: none. */
  readonly install: InstallReport | undefined
  /** `pending`: no agent has joined yet. */
  readonly state: HostState
  readonly draining: boolean
  /** Public address for its guests. */
  readonly publicAddress: PublicAddress
  readonly createdAtMs: number
  /** 0: never. */
  readonly lastSeenMs: number
  /** End of the agent's certificate, ms since 1970; 0: not joined. */
  readonly certificateNotAfterMs: number
  /** Warnings for the operator: the agent's own, conflicting guests, refused data. */
  readonly warnings: readonly string[]
  /** True if the agent, when it last reported, had another version than this gateway. */
  readonly outdated: boolean
  readonly description: HostDescription | undefined
  readonly metrics: HostMetrics | undefined
}
