import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import type { Lease } from '../store/lease.js'
import type { Store } from '../store/store.js'

/** State that a running gateway reports about itself. */
export interface GatewayStatus {
  /** Processor time since the last report, in percent of one processor. */
  readonly loadPercent: number
  /** Resident memory in MiB. */
  readonly memoryMb: number
  /** Names of the leases that the gateway holds. Each lease is for work that only one gateway does at a time. */
  readonly leases: readonly string[]
  /** Ids of the hosts to which the gateway is connected. Absent: the gateway has an earlier version. */
  readonly onlineHosts?: readonly string[]
}

/** Time in ms for which a report is valid. A gateway without a valid report counts as offline. */
const validMs = 10_000

/** Reports the state of this gateway to the store, and reads the reports of all gateways. */
export class GatewayStatuses {
  #used: EventLoopUtilization = performance.eventLoopUtilization()

  constructor(
    private readonly store: Store,
    private readonly ownId: string,
  ) {}

  /** @throws {BerthError} `store_unavailable` */
  async report(leases: readonly Pick<Lease, 'name' | 'held'>[], onlineHosts: readonly string[]): Promise<void> {
    const status: GatewayStatus = {
      loadPercent: this.#readLoad(),
      memoryMb: Math.round(process.memoryUsage.rss() / 1024 ** 2),
      leases: leases.filter(({ held }) => held).map(({ name }) => name),
      onlineHosts,
    }
    await this.store.run('report the state of this gateway', (client) =>
      client.set(this.#key(this.ownId), JSON.stringify(status), { expiration: { type: 'PX', value: validMs } }),
    )
  }

  /** Reads the reports of the gateways with these ids. For an offline gateway, the result is undefined. */
  async read(ids: readonly string[]): Promise<(GatewayStatus | undefined)[]> {
    if (ids.length === 0) return []
    const keys = ids.map((id) => this.#key(id))
    const texts = await this.store.run('read the states of the gateways', (client) => client.mGet(keys))
    return texts.map((text) => (text === null ? undefined : (JSON.parse(text) as GatewayStatus)))
  }

  /** Deletes the report of this gateway. Other gateways then show this gateway as offline immediately. */
  async withdraw(): Promise<void> {
    await this.store.run('withdraw the state of this gateway', (client) => client.del(this.#key(this.ownId)))
  }

  #readLoad(): number {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#used)
    this.#used = now
    return Math.round(utilization * 100)
  }

  #key(id: string): string {
    return this.store.key('gateway-status', id)
  }
}
