import type { AgentConfig } from '../config.js'
import { readFlowsOf, readUnreplied, type OpenedFlow } from '../host/net/flows-of.js'
import { Nft } from '../host/net/nft.js'
import { PacketLog, type PacketReport } from '../host/net/packet-log.js'
import { changeSysctl, releaseSysctls } from '../host/kernel/sysctl-change.js'
import { findSysctl } from '../host/kernel/sysctl.js'
import { readCountingSets, type CountingSet } from '../host/net/counted-elements.js'
import {
  amplifierCounters,
  planWatchRemoval,
  planWatchTable,
  watchCounters,
  watchLogGroup,
  watchTable,
  type WatchTablePlan,
} from '../network/nft/ruleset/plan-watch-table.js'
import { shortHash } from '../network/nft/tables/element-index.js'
import type { AbuseSensor, WatchedGuest } from './contract.js'
import type { PacketCounts } from './plan-counts.js'
import { sumCounts, type CountedName } from './sum-counts.js'

const acct = 'net/netfilter/nf_conntrack_acct'
const reportSeconds = 5

/** Observes guests with an nft table, a listener for its packet samples, and the connection tracking table. */
export class HostSensor implements AbuseSensor {
  readonly #nft = new Nft()
  readonly #plan: WatchTablePlan
  readonly #commands: readonly string[]
  #log: PacketLog | undefined
  readonly #listeners = new Set<(report: PacketReport) => void>()

  constructor(
    private readonly config: Pick<AgentConfig, 'network' | 'security'>,
    private readonly onEnd: (reason: string) => void,
  ) {
    const { network, security } = config
    this.#plan = {
      table: network.table,
      bridge: network.bridge,
      loginPorts: [...new Set([...security.brute_force.ports, ...security.brute_force.database_ports])],
      amplifiers: security.reflection.ports,
      payload: security.payload,
    }
    this.#commands = planWatchTable(this.#plan)
  }

  /** Creates the nft table if it is missing or outdated. An empty chain is named after a hash of the table's rules. */
  async ensure(): Promise<void> {
    await this.#ensureCounting()
    await this.#ensureTable()
    const { security } = this.config
    this.#log ??= new PacketLog({
      group: watchLogGroup(this.#plan.table),
      everySeconds: Math.min(reportSeconds, security.interval_seconds),
      pools: security.payload ? security.mining.pools : [],
      onReport: (report) => this.#listeners.forEach((listener) => listener(report)),
      onEnd: this.onEnd,
    })
    await this.#log.ready
  }

  /** Removes the nft table. Turns off byte counting of connections, unless another agent in this namespace needs it. */
  async remove(): Promise<void> {
    await this.#nft.apply(planWatchRemoval(this.#plan.table))
    await releaseSysctls((path) => path === acct)
  }

  onReport(listener: (report: PacketReport) => void): void {
    this.#listeners.add(listener)
  }

  async readCounts(guests: readonly WatchedGuest[]): Promise<ReadonlyMap<string, PacketCounts>> {
    return sumCounts(guests, await readCountingSets(this.#sets()))
  }

  readFlowsOf(addresses: readonly string[]): Promise<readonly OpenedFlow[]> {
    return readFlowsOf(addresses)
  }

  readUnreplied(): Promise<readonly OpenedFlow[]> {
    return readUnreplied()
  }

  async close(): Promise<void> {
    this.#log?.close()
    await this.#nft.close()
  }

  /** Turns on byte counting of connections. Connections that are already open are not counted. */
  async #ensureCounting(): Promise<void> {
    const has = findSysctl(acct)
    if (has === 0) await changeSysctl(acct, has, 1)
  }

  async #ensureTable(): Promise<void> {
    const { table } = this.#plan
    const note = `plan_${shortHash(this.#commands.join('\n'))}`
    if ((await this.#nft.readPart(`chain inet ${watchTable(table)} ${note}`)) !== undefined) return
    await this.#nft.apply([
      ...planWatchRemoval(table),
      ...this.#commands,
      `add chain inet ${watchTable(table)} ${note}`,
    ])
  }

  #sets(): CountingSet<CountedName>[] {
    const { table } = this.#plan
    const watched = [...watchCounters, ...amplifierCounters].flatMap((name) => [name, `${name}6`] as const)
    return [
      ...watched.map((set) => ({ table: watchTable(table), set })),
      ...(['sent', 'received', 'limited'] as const).map((set) => ({ table, set })),
      { table, set: 'forged', family: 'bridge' },
    ]
  }
}
