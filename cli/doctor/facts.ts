/* These types describe API answers from which problems are derived. Times have the form YYYY-MM-DD HH:MM:SS. */

export interface HostFact {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly last_seen: string
  readonly version: string
  readonly outdated: boolean
  readonly certificate_expires_at: string
  readonly warnings: readonly string[]
  readonly install: { readonly step: string; readonly message: string } | null
  readonly upgrade: { readonly state: string; readonly message: string; readonly to: string } | null
}

interface Pool {
  readonly used: number
  readonly total: number
}

export interface HostUsageFact {
  readonly host_id: string
  readonly disk_used_gb: number | null
  readonly disk_total_gb: number
  readonly disk_full_in_days: number | null
  readonly ports: Pool | null
  readonly public_ipv4: Pool | null
}

export interface GatewayFact {
  readonly name: string
  readonly state: string
  readonly version: string
  readonly answers: boolean
}

export interface TaskFact {
  readonly task_id: string
  readonly action: string
  readonly container_name: string
  readonly image_id: string
  readonly error: string
  readonly error_code: string
  readonly finished_at: string
}

export interface SslFact {
  readonly enabled: boolean
  readonly certificate: { readonly not_after: string; readonly renews_at: string } | null
  readonly warnings: readonly string[]
}

export interface AuthorityFact {
  readonly not_after: string
  readonly rotation: { readonly state: string; readonly missing_hosts: readonly { readonly name: string }[] }
}

export interface UpgradeFact {
  readonly state: string
  readonly version: string
}

/** Facts about the fleet from the gateway. A part is undefined if the API key is not allowed to read it. */
export interface FleetFacts {
  /** Time of the gateway in its time zone, in the form of the API's times. */
  readonly now: string
  readonly hosts?: readonly HostFact[]
  readonly usage?: { readonly hosts: readonly HostUsageFact[] }
  readonly gateways?: readonly GatewayFact[]
  /** Failed tasks, newest first. */
  readonly failedTasks?: readonly TaskFact[]
  readonly ssl?: SslFact
  readonly authority?: AuthorityFact
  readonly upgrade?: UpgradeFact
}
