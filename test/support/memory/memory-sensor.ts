import type { AbuseSensor, WatchedGuest } from '../../../agent/abuse/contract.js'
import { noCounts, type PacketCounts } from '../../../agent/abuse/plan-counts.js'
import type { OpenedFlow } from '../../../agent/host/net/flows-of.js'
import type { PacketReport, PacketSample } from '../../../agent/host/net/packet-log.js'

/** Traffic of guests, set by a test; it survives the agent. */
export class MemorySensor implements AbuseSensor {
  /** By the guest's uuid, since counting began. */
  readonly counts = new Map<string, PacketCounts>()
  flows: OpenedFlow[] = []
  /** True once an agent has removed its rules from the host. */
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

  /** The agent has ended: nobody listens any more. */
  async close(): Promise<void> {
    this.#listeners = new Set()
    return Promise.resolve()
  }

  report(samples: readonly PacketSample[]): void {
    for (const listener of this.#listeners) listener({ samples, seen: samples.length, lost: 0 })
  }

  /** Adds flows of a guest that tries ports of one target, each of which refuses. */
  scanPorts(guest: string, target: string, ports: number): void {
    const numbers = Array.from({ length: ports }, (_, index) => index + 1)
    this.report(
      (['opened', 'refused'] as const).flatMap((kind) =>
        numbers.map((port) => ({ kind, guest, target, protocol: 'tcp', port, count: 1 })),
      ),
    )
  }
}
