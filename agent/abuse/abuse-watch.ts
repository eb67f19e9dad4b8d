import type { GuestContext, PolicyKeeper } from '../guests/context.js'
import type { OpenedFlow } from '../host/net/flows-of.js'
import type { AbuseSensor, RecordedFlow } from './contract.js'
import { MemoryAlerts } from './memory-alerts.js'
import { AbuseMonitor, type CheckSummary } from './monitor.js'
import { AbuseShutdown } from './shutdown.js'
import { AlertStore } from './alert-store.js'

const dayMs = 86_400_000
/** Maximum number of connections that `readLogs` returns for a guest. */
const mostLogs = 100
const loggedAlerts = 10
/** Maximum number of connections that `readHostLogs` returns for all guests together. */
const mostHostLogs = 1000

export interface AbuseWatchParts {
  readonly context: Pick<GuestContext, 'config' | 'store' | 'log' | 'now'>
  readonly sensor: AbuseSensor
  readonly policy: Pick<PolicyKeeper, 'judge'>
}

export interface AbuseLogs {
  /** Connections that the guest has now. */
  readonly flows: readonly { readonly atMs: number; readonly flow: OpenedFlow }[]
  /** Recorded flows of the guest, newest first: those stored with alerts, and those of the last minutes. */
  readonly rows: readonly RecordedFlow[]
}

export interface LoggedFlow {
  readonly uuid: string
  readonly row: RecordedFlow
}

/** Entry point of agent/abuse: watches guests for abuse, reports it, and stops guests if that is enabled. */
export class AbuseWatch {
  readonly alerts: AlertStore
  readonly monitor: AbuseMonitor
  readonly shutdown: AbuseShutdown
  readonly memory: MemoryAlerts

  constructor(private readonly parts: AbuseWatchParts) {
    const { context, sensor, policy } = parts
    this.alerts = new AlertStore(context.store.changes)
    this.shutdown = new AbuseShutdown({ context, policy, alerts: this.alerts })
    this.memory = new MemoryAlerts({ context, alerts: this.alerts })
    this.monitor = new AbuseMonitor({ context, sensor, alerts: this.alerts, shutdown: this.shutdown })
  }

  start(): Promise<void> {
    return this.monitor.start()
  }

  async close(): Promise<void> {
    this.memory.close()
    await this.monitor.close()
    await this.parts.sensor.close()
  }

  /**
   * Evaluates all guests, even if `uuid` names a single guest.
   * @param uuid if not empty, the uuid of a guest that must exist
   * @throws {BerthError} `not_found`
   */
  async check(uuid: string): Promise<CheckSummary> {
    if (uuid !== '') this.parts.context.store.get(uuid)
    return this.monitor.check()
  }

  /**
   * Returns the recorded connections of a guest and the connections that it has now.
   * @throws {BerthError} `not_found`
   */
  async readLogs(uuid: string): Promise<AbuseLogs> {
    const { context, sensor } = this.parts
    const { ipv4, ipv6Addresses } = context.store.get(uuid)
    const flows = await sensor.readFlowsOf([ipv4, ...ipv6Addresses.slice(0, 4)])
    const atMs = context.now()
    const rows = this.#rowsOf(uuid)
    const shown = flows.slice(0, mostLogs / 2).map((flow) => ({ atMs, flow }))
    return { flows: shown, rows: rows.slice(0, mostLogs - shown.length) }
  }

  /**
   * Returns the recorded connections of all guests, newest first. Leaves out connections that exist now, because
   * reading them walks the kernel's whole connection tracking table for each guest.
   */
  readHostLogs(): LoggedFlow[] {
    const rows = this.parts.context.store.list().flatMap(({ uuid }) => this.#rowsOf(uuid).map((row) => ({ uuid, row })))
    return rows.sort((a, b) => b.row.atMs - a.row.atMs).slice(0, mostHostLogs)
  }

  /** Returns the recorded connections of a guest, newest first. */
  #rowsOf(uuid: string): RecordedFlow[] {
    const kept = [...this.monitor.latestRows(uuid, mostLogs), ...this.alerts.samplesOf(uuid, loggedAlerts)]
    return distinctRows(kept).sort((a, b) => b.atMs - a.atMs)
  }

  /** Returns the guest's address of the same address family as `target`: the IPv4 address or the first IPv6 address. */
  addressOf(uuid: string, target: string): string {
    const { ipv4, ipv6Addresses } = this.parts.context.store.get(uuid)
    return target.includes(':') ? (ipv6Addresses[0] ?? '') : ipv4
  }

  /** Deletes alerts that are older than `keep_days`. If more than `keep` alerts are left, deletes the oldest ones. */
  async prune(): Promise<void> {
    const { config, now } = this.parts.context
    this.alerts.prune(now() - config.security.keep_days * dayMs, config.security.keep)
  }
}

function distinctRows(rows: readonly RecordedFlow[]): RecordedFlow[] {
  return [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()]
}
