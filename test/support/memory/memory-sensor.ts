import type { AbuseSensor, WatchedGuest } from '../../../agent/abuse/contract.js'
import { noCounts, type PacketCounts } from '../../../agent/abuse/plan-counts.js'
import type { OpenedFlow } from '../../../agent/host/net/flows-of.js'
import type { PacketReport, PacketSample } from '../../../agent/host/net/packet-log.js'

/** Simulated traffic of guests, which a test sets. The traffic stays when the agent restarts. */
export class MemorySensor implements AbuseSensor {
  /** Packet counts since counting began, by the guest's UUID. */
  readonly counts = new Map<string, PacketCounts>()
  flows: OpenedFlow[] = []
  /** True after an agent has removed its rules from the host. */
  isRemoved = false
  #listeners = new Set<(report: PacketReport) => void>()

  async ensure(): Promise<void> {
    return Promise.resolve()
  }

  async remove(): Promise<void> {
    this.isRemoved = true
    return Promise.resolve()
  }

  onReport(listener: (report: PacketReport) => void): void {
    this.#listeners.add(listener)
  }

  async readCounts(guests: readonly WatchedGuest[]): Promise<ReadonlyMap<string, PacketCounts>> {
    return new Map(guests.map(({ uuid }) => [uuid, this.counts.get(uuid) ?? noCounts]))
  }

  async readFlowsOf(addresses: readonly string[]): Promise<readonly OpenedFlow[]> {
    return this.flows.filter(({ source }) => addresses.includes(source))
  }

  async readUnreplied(): Promise<readonly OpenedFlow[]> {
    return this.flows.filter(({ unreplied }) => unreplied)
  }

  /** Drops all listeners, because the agent has ended. */
  async close(): Promise<void> {
    this.#listeners = new Set()
    return Promise.resolve()
  }

  report(samples: readonly PacketSample[]): void {
    for (const listener of this.#listeners) listener({ samples, seen: samples.length, lost: 0 })
  }

  /** Reports a guest that tries many ports of one target. The target refuses each attempt. */
  scanPorts(guest: string, target: string, ports: number): void {
    const numbers = Array.from({ length: ports }, (_, index) => index + 1)
    this.report(
      (['opened', 'refused'] as const).flatMap((kind) =>
        numbers.map((port) => ({ kind, guest, target, protocol: 'tcp', port, count: 1 })),
      ),
    )
  }
}
