import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import type { Alert } from '../../proto/gen/berth/agent/v1/security.js'
import type { DrainResult } from './host-record.js'
import type { HostWindow } from './host-windows.js'
import type { InstallReport } from '../join/installer.js'
import type { HostUpgrade } from '../join/host-upgrade.js'
import type { PublicAddress } from './public-address.js'
import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** A guest as reported by its agent, and its host. */
export interface GuestView {
  readonly hostId: string
  readonly guest: Guest
  /** False while the host is offline. The status of its guests is then shown as `unknown`. */
  readonly online: boolean
  /** Public address of the host: a name or an address. "": not known. */
  readonly hostAddress: string
  /** Current maintenance window of the host, or else the next one. `undefined`: none is announced. */
  readonly maintenance: HostWindow | undefined
  /** Cache for data that readers of the fleet view derive from this guest. Readers must check if it is current. */
  shown?: unknown
}

export interface OperationView {
  readonly hostId: string
  readonly operation: Operation
}

/** An alert of a host about a guest. The guest can already be deleted. */
export interface AlertView {
  readonly hostId: string
  readonly alert: Alert
}

type HostState = 'pending' | 'online' | 'offline'

/** State of the newest join token. `none`: it was used, or no token was created. */
export type JoinTokenStatus = 'none' | 'valid' | 'expired'

/** A host: its stored record and the state that its agent reports. */
export interface HostView {
  readonly id: string
  readonly name: string
  /** host:port to which the gateway connects. "": it becomes known when the agent joins. */
  readonly address: string
  /** Last step that the installation script reported. `undefined`: no script was used. */
  readonly install: InstallReport | undefined
  readonly joinToken: JoinTokenStatus
  /** Last upgrade or rollback of the agent. `undefined`: the agent was never upgraded or rolled back. */
  readonly upgrade: HostUpgrade | undefined
  /** State of the host. `pending`: the agent has not joined the fleet yet. */
  readonly state: HostState
  readonly draining: boolean
  /** Group of the host for placement rules. "": none. */
  readonly group: string
  /** Labels of the host for placement rules: words or key=value. */
  readonly labels: readonly string[]
  /** Result of the last drain that has ended. `undefined`: no drain has ended. */
  readonly drained: DrainResult | undefined
  /** Open maintenance windows, and windows that were closed lately. */
  readonly maintenance: readonly HostWindow[]
  /** Public address at which the guests of the host are reachable. */
  readonly publicAddress: PublicAddress
  readonly createdAtMs: number
  /** Time of the last message of the agent, in ms since 1970. 0: the agent has not sent a message. */
  readonly lastSeenMs: number
  /** End of the agent's certificate, in ms since 1970. 0: the agent has not joined. */
  readonly certificateNotAfterMs: number
  /** Warnings for operators: those of the agent, and those of the gateway about hidden guests and rejected data. */
  readonly warnings: readonly string[]
  /** Number of old copies of guests that belong to other hosts. The host keeps their disks, and does not start them. */
  readonly fenced: number
  /** True if the version that the agent last reported differs from the version of this gateway. */
  readonly outdated: boolean
  readonly description: HostDescription | undefined
  readonly metrics: HostMetrics | undefined
}
