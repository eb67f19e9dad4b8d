import type { HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { sumCopies } from '../guests/create/allocation.js'
import { readPublicAddresses } from '../host/net/addresses.js'
import type { HostSample } from '../metrics/host-sampler.js'
import { readNatPorts } from '../network/addresses/address-tables.js'
import { countPorts } from '../network/ports.js'
import { planReserveBytes, planRoomWarnings } from '../storage/room.js'
import type { Domain } from './domain.js'

const gib = 1024 ** 3

/** Converts a sample of the host to the protocol's message, and adds figures about the agent. */
export async function readMetrics(
  sample: HostSample,
  domain: Domain,
  weaknesses: readonly string[],
): Promise<HostMetrics> {
  const addresses = readPublicAddresses()
  const operations = domain.engine.stats()
  const { db } = domain.changes
  return {
    cpuUsagePct: sample.cpuPercent,
    ramTotalMb: sample.ramTotalMb,
    ramUsedMb: sample.ramUsedMb,
    diskTotalGb: Math.floor(sample.pool.totalBytes / gib),
    diskUsedGb: Math.ceil(sample.pool.usedBytes / gib),
    diskTotalBytes: sample.pool.totalBytes,
    diskUsedBytes: sample.pool.usedBytes,
    diskReserveBytes: Math.round(planReserveBytes(sample.pool.totalBytes)),
    load1: sample.load[0],
    load5: sample.load[1],
    load15: sample.load[2],
    publicIpv4: addresses.ipv4,
    publicIpv4Interface: addresses.ipv4Interface,
    publicIpv6: addresses.ipv6,
    publicIpv6Interface: addresses.ipv6Interface,
    natPortsUsed: countPorts(db, readNatPorts(db, domain.context.config.network.nat_ports)),
    agentRssBytes: sample.agentRssBytes,
    agentCpuSeconds: sample.agentCpuSeconds,
    agentEventLoopLagMs: sample.eventLoopLagMs,
    operationsRunning: operations.running,
    operationsPending: operations.pending,
    operationsDone: operations.done,
    operationsFailed: operations.failed,
    repairs: domain.reconciler.repairs,
    securityPackets: domain.abuse.monitor.packets.seen,
    securityPacketsLost: domain.abuse.monitor.packets.lost,
    standbyDiskGb: sumCopies(domain.standbys.copies.journal.list()),
    sampledAtMs: sample.sampledAtMs,
    warnings: [...weaknesses, ...warningsOf(sample, domain)],
  }
}

function warningsOf({ pool }: HostSample, domain: Domain): string[] {
  return [...planRoomWarnings(pool), ...domain.reconciler.warnings, ...domain.context.network.warnings]
}
