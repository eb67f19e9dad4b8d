import type { InstallReport } from '../join/installer.js'
import type { HostUpgrade } from '../join/host-upgrade.js'
import type { HostWindow } from './host-windows.js'

/** Result of a drain that has ended: numbers of containers by state. */
export interface DrainResult {
  readonly id: string
  /** `move`: containers were moved. `stop`: they were stopped or started. */
  readonly mode: string
  /** `away`: containers left the host or were stopped. `back`: they returned or were started. */
  readonly direction: string
  readonly state: string
  readonly done: number
  readonly failed: number
  readonly skipped: number
  readonly endedAtMs: number
}

/** A stored host: settings of administrators, and its certificates. */
export interface HostRecord {
  readonly id: string
  /** Number that increases with every change. The record with the higher number is newer. */
  readonly version: number
  readonly name: string
  /** Address of the agent as host:port. "": it becomes known when the agent joins. */
  readonly address: string
  /** Last step that the installation script reported. Absent: no script was used. */
  readonly install?: InstallReport
  /** Expiry of the newest join token, in ms since 1970. Absent: it was used, or no token was created. */
  readonly joinExpiresAtMs?: number | undefined
  /** Last upgrade or rollback of the agent; absent if the agent was never upgraded or rolled back. */
  readonly upgrade?: HostUpgrade | undefined
  readonly draining: boolean
  /** Group of hosts to which placement rules of guests refer. Absent or "": none. */
  readonly group?: string
  /** Labels to which placement rules of guests refer: words or key=value. Absent: none. */
  readonly labels?: readonly string[]
  readonly drained?: DrainResult | undefined
  /** Open maintenance windows, and windows that were closed lately. Absent: none. */
  readonly maintenance?: readonly HostWindow[]
  /** Name or address at which customers reach the guests. Absent or "": derived, see `public-address.ts`. */
  readonly publicAddress?: string
  readonly createdAtMs: number
  /** Serial numbers of valid certificates, newest last. Empty: the agent has not joined. */
  readonly serials: readonly string[]
  /** End of the newest certificate, in ms since 1970. 0: the agent has not joined. */
  readonly certificateNotAfterMs: number
  /** Fingerprint of the CA that issued the newest certificate. Absent: no rotation of the CA has reached the host. */
  readonly issuer?: string
  /** Fingerprints of the CAs that the agent has confirmed to trust. Absent: it has confirmed none. */
  readonly trusted?: readonly string[] | undefined
}
