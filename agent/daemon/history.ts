import type { AgentConfig } from '../config.js'
import { readHostCounters } from '../host/net/host-counters.js'
import { readBootId } from '../host/process/proc.js'
import { UsageHistory, type HistorySample } from '../history/history.js'
import type { GuestSampler } from '../metrics/guest-sampler.js'
import type { MetricsFeed } from '../metrics/feed.js'
import type { Domain } from './domain.js'
import type { Host } from './host.js'

const mib = 1024 * 1024

export interface HistorySources {
  readonly host: Pick<Host, 'cpuCores'>
  readonly domain: Pick<Domain, 'context' | 'sampler' | 'series'>
  readonly config: AgentConfig
  readonly feed: MetricsFeed
}

/** Opens the history of usage in the state directory. The history reuses samples that the agent takes anyway. */
export function openHistory({ host, domain, config, feed }: HistorySources): UsageHistory {
  const { store, now, log } = domain.context
  return new UsageHistory({
    files: domain.series,
    sampleGuest: (uuid) => sampleGuest(domain.sampler, uuid),
    sampleHost: () => sampleHost(feed, now()),
    hostProcessors: host.cpuCores,
    writeEveryMs: config.metrics.history_write_seconds * 1000,
    store,
    log,
    now,
  })
}

function sampleGuest(sampler: GuestSampler, uuid: string): HistorySample {
  const found = sampler.sampled(uuid)
  const diskBytes = sampler.diskBytes(uuid)
  if (!found) return { reading: undefined, diskBytes }
  const { sample, atMs, pid } = found
  const { readBytes, writeBytes } = sample
  return { reading: { ...sample, atMs, life: String(pid), readBytes, writeBytes }, diskBytes }
}

function sampleHost({ latest }: MetricsFeed, atMs: number): HistorySample {
  if (!latest) return { reading: undefined, diskBytes: undefined }
  const gauges = { memoryBytes: latest.ramUsedMb * mib, life: readBootId() }
  return { reading: { atMs, ...gauges, ...readHostCounters() }, diskBytes: latest.diskUsedBytes }
}
