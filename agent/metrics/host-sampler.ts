import { monitorEventLoopDelay } from 'node:perf_hooks'
import { cpus, loadavg } from 'node:os'
import type { Logger } from 'pino'
import { mem } from 'systeminformation/lib/memory.js'

/** Sampled figures of the host and of the agent's own process. */
export interface HostSample {
  cpuPercent: number
  ramTotalMb: number
  ramUsedMb: number
  pool: SampledCapacity
  load: readonly [number, number, number]
  agentRssBytes: number
  agentCpuSeconds: number
  eventLoopLagMs: number
  sampledAtMs: number
}

export interface SampledCapacity {
  totalBytes: number
  usedBytes: number
}

const loopResolutionMs = 500
const mib = 1024 * 1024

export interface HostSamplerOptions {
  poolCapacity: () => Promise<SampledCapacity>
  onSample: (sample: HostSample) => void | Promise<void>
  log: Logger
}

/**
 * Samples the host, without starting processes: memory by systeminformation's `mem`, the times of processors, and the
 * storage pool by statfs.
 */
export class HostSampler {
  #timer: NodeJS.Timeout | undefined
  readonly #load = new ProcessorLoad()
  readonly #loop = monitorEventLoopDelay({ resolution: loopResolutionMs })

  constructor(private readonly options: HostSamplerOptions) {}

  async start(intervalMs: number): Promise<void> {
    this.#loop.enable()
    await this.#sample()
    this.#timer = setInterval(() => void this.#sample(), intervalMs)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#loop.disable()
  }

  async #sample(): Promise<void> {
    try {
      await this.options.onSample(await this.#read())
    } catch (err) {
      this.options.log.warn({ err }, 'could not measure the resource usage of the host')
    }
  }

  async #read(): Promise<HostSample> {
    const [memory, pool] = await Promise.all([mem(), this.options.poolCapacity()])
    const own = process.cpuUsage()
    const lagMs = this.#loop.mean / 1e6 - loopResolutionMs // `mean` is the timer's resolution plus the event loop's lag
    this.#loop.reset()
    const [load1 = 0, load5 = 0, load15 = 0] = loadavg()
    return {
      cpuPercent: this.#load.read(),
      ramTotalMb: Math.floor(memory.total / mib),
      ramUsedMb: Math.floor((memory.total - memory.available) / mib),
      pool,
      load: [load1, load5, load15],
      agentRssBytes: process.memoryUsage.rss(),
      agentCpuSeconds: (own.user + own.system) / 1e6,
      eventLoopLagMs: Number.isFinite(lagMs) ? Math.max(0, lagMs) : 0,
      sampledAtMs: Date.now(),
    }
  }
}

/** Computes processor usage. systeminformation's `currentLoad` would block the agent, because it starts a shell. */
class ProcessorLoad {
  #last = readTimes()
  #percent = 0

  /** Returns the usage in percent since the last reading, or the last value if no time has passed. */
  read(): number {
    const now = readTimes()
    const [busy, all] = [now.busy - this.#last.busy, now.all - this.#last.all]
    if (all <= 0) return this.#percent
    this.#last = now
    return (this.#percent = Math.max(0, (busy / all) * 100))
  }
}

function readTimes(): { busy: number; all: number } {
  let [busy, all] = [0, 0]
  for (const { times } of cpus()) {
    const spent = times.user + times.nice + times.sys + times.irq
    busy += spent
    all += spent + times.idle
  }
  return { busy, all }
}
