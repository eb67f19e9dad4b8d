import { RefusedError, type BerthClient } from '../../client/index.js'

/** Usage of a host. A number is null if it is not known, for example because the host is offline. */
export interface HostUsage {
  readonly host_id: string
  readonly cpu_usage_pct: number | null
  readonly ram_used_mb: number | null
  readonly ram_total_mb: number
  readonly disk_used_gb: number | null
  readonly disk_total_gb: number
}

export interface HostState {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly containers: number
}

export interface GuestUsage {
  readonly id: number
  readonly name: string
  readonly cpu_usage_pct: number | null
  readonly memory_usage_bytes: number | null
  readonly disk_usage_bytes: number | null
  readonly traffic_used_bytes: number | null
}

/** Usage of the fleet. Without the right to read hosts, it contains only guests. */
export interface FleetUsage {
  readonly hosts: readonly HostUsage[] | undefined
  readonly states: readonly HostState[] | undefined
  readonly guests: readonly GuestUsage[]
}

/** Maximum number of guests in an answer of the API. */
export const maxGuests = 100

/** @throws {CliError} if the gateway cannot be reached, or refuses the list of guests */
export async function readUsage(client: BerthClient): Promise<FleetUsage> {
  const read = async (path: string, query = {}): Promise<unknown> =>
    (await client.send({ method: 'GET', path, query })).body.data
  const [guests, fleet, states] = await Promise.all([
    read('/container-usage', { busiest: String(maxGuests) }),
    allowed(read('/fleet-usage')),
    allowed(read('/hosts')),
  ])
  return {
    guests: guests as GuestUsage[],
    hosts: (fleet as { hosts: HostUsage[] } | undefined)?.hosts,
    states: states as HostState[] | undefined,
  }
}

/** Resolves with the answer, or with undefined if the API key lacks the right. */
async function allowed<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (cause) {
    if (cause instanceof RefusedError && cause.status === 403) return undefined
    throw cause
  }
}

/** Replaces the usage of a host by the usage in an event `usage.host`. Other events change nothing. */
export function withEvent(usage: FleetUsage, type: unknown, data: unknown): FleetUsage {
  const fresh = data as Partial<HostUsage> | undefined
  if (type !== 'usage.host' || usage.hosts === undefined) return usage
  return {
    ...usage,
    hosts: usage.hosts.map((host) => (host.host_id === fresh?.host_id ? { ...host, ...fresh } : host)),
  }
}
