import type { InstallReport } from '../join/installer.js'

/** A host as stored: the administrator's settings, and the certificates issued to it. */
export interface HostRecord {
  readonly id: string
  /** Grows with every change: of two readings the higher one is newer. */
  readonly version: number
  readonly name: string
  /** host:port; "": the agent's address becomes known when it joins. */
  readonly address: string
  /** Last step of an installation by script; absent: there was none. */
  readonly install?: InstallReport
  readonly draining: boolean
  /** Name or address at which customers reach its guests; absent or "": not set, see `public-address.ts`. */
  readonly publicAddress?: string
  readonly createdAtMs: number
  /** Serial numbers of valid certificates, newest last; empty: not joined. */
  readonly serials: readonly string[]
  /** End of the newest certificate, ms since 1970; 0: not joined. */
  readonly certificateNotAfterMs: number
}
