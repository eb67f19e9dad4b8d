import { setImmediate as nextTurn } from 'node:timers/promises'
import { Coalescer } from '../../shared/async/coalescer.js'
import { describeError } from '../../shared/errors.js'
import type { ObservedGuest, UsageSample } from '../drivers/contract.js'
import type { GuestContext } from '../guests/context.js'
import type { GuestRecord } from '../guests/record/record.js'
import { nextLoad, type Load } from './load-average.js'

/** A guest's present usage. */
export interface GuestUsage {
  /** Usage of all its processors together, 0 to 100. */
  cpuPercent: number
  /** Processor time since its start. */
  cpuUsec: number
  memoryBytes: number
  diskBytes: number
  rxBytes: number
  txBytes: number
  load: Load
  sampledAtMs: number
}

/** Disk usage is read separately, because stopped guests have it too. */
type ProcessUsage = Omit<GuestUsage, 'diskBytes'>

interface GuestSample {
  pid: number
  sample: UsageSample
  usage: ProcessUsage
}

const none: ProcessUsage = {
  cpuPercent: 0,
  cpuUsec: 0,
  memoryBytes: 0,
  rxBytes: 0,
  txBytes: 0,
  load: [0, 0, 0],
  sampledAtMs: 0,
}

const diskIntervalMs = 60_000
/** Minimum interval of reads for a running guest without a figure: each read of a new disk starts a process. */
const newDiskIntervalMs = 5000
/** Maximum age of a fresh disk figure. */
const freshDiskMs = 2000

/** Samples every running guest at an interval; reads are answered from memory. */
export class GuestSampler {
  readonly #last = new Map<string, GuestSample>()
  #pids = new Map<string, number>()
  #disk = new Map<string, number>()
  #diskAtMs = 0
  /** Disks that were read individually since the last complete sample, by uuid. */
  #fresh = new Map<string, { readonly atMs: number; readonly read: Promise<number | undefined> }>()
  #timer: NodeJS.Timeout | undefined
  readonly #sampling = new Coalescer(() => this.#sampleAll())
  #onMemoryKills: (uuid: string, kills: number) => void = () => undefined

  constructor(private readonly context: GuestContext) {}

  start(intervalMs: number): void {
    this.#timer = setInterval(() => {
      if (!this.#sampling.isBusy) void this.sample()
    }, intervalMs)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Called when the kernel killed processes of a guest because its memory ran out. */
  onMemoryKills(listener: (uuid: string, kills: number) => void): void {
    this.#onMemoryKills = listener
  }

  /** Updates the list of running guests after a comparison; new ones are sampled at once. */
  observed(observed: readonly ObservedGuest[]): void {
    const running = observed.flatMap((o) => (o.state === 'running' && o.pid ? [[o.uuid, o.pid] as const] : []))
    this.#pids = new Map(running)
    for (const uuid of this.#last.keys()) if (!this.#pids.has(uuid)) this.#last.delete(uuid)
    if (running.some(([uuid, pid]) => this.#last.get(uuid)?.pid !== pid)) void this.sample()
  }

  usage(uuid: string): GuestUsage {
    return { ...(this.#last.get(uuid)?.usage ?? none), diskBytes: this.diskBytes(uuid) ?? 0 }
  }

  /** Like `usage`, with a disk figure that is at most a few seconds old. */
  async freshUsage(record: GuestRecord): Promise<GuestUsage> {
    const nowMs = performance.now()
    let fresh = this.#fresh.get(record.uuid)
    if (!fresh || nowMs - fresh.atMs >= freshDiskMs) {
      fresh = { atMs: nowMs, read: this.#readDisk(record) }
      this.#fresh.set(record.uuid, fresh)
    }
    const diskBytes = await fresh.read
    return { ...this.usage(record.uuid), ...(diskBytes !== undefined && { diskBytes }) }
  }

  async #readDisk(record: GuestRecord): Promise<number | undefined> {
    const { uuid } = record
    try {
      const driver = this.context.machines.driverOf(record)
      const inside = this.#pids.has(uuid) ? await driver.readDiskUse?.(this.context.machines.of(record)) : undefined
      return inside ?? (await this.context.volumes.usage([uuid])).get(uuid)
    } catch (error) {
      this.context.log.debug({ guest: uuid, reason: describeError(error) }, 'disk not read')
      return undefined // the last figure is used
    }
  }

  /** The last sample of a running guest; undefined: not sampled yet, or not running. */
  sampled(uuid: string): { pid: number; sample: UsageSample; atMs: number } | undefined {
    const last = this.#last.get(uuid)
    return last && { pid: last.pid, sample: last.sample, atMs: last.usage.sampledAtMs }
  }

  /** Bytes on the disk, also of a stopped guest; undefined: not known. */
  diskBytes(uuid: string): number | undefined {
    const countedBytes = this.#disk.get(uuid)
    const extraBytes = this.context.store.find(uuid)?.extraBytes ?? 0
    const ownBytes = countedBytes === undefined ? undefined : Math.max(0, countedBytes - extraBytes)
    return this.#last.get(uuid)?.sample.diskBytes ?? ownBytes
  }

  /** Resolves after a sample of all guests that starts after this call. Failures are logged. */
  sample(): Promise<void> {
    return this.#sampling.run()
  }

  #sampleAll(): Promise<void> {
    return this.#readAll().catch((err: unknown) => this.context.log.warn({ err }, 'sample guests'))
  }

  async #readAll(): Promise<void> {
    await this.#sampleDisks()
    for (const [uuid, pid] of this.#pids) {
      const record = this.context.store.find(uuid)
      if (record) await this.#sampleGuest(record, pid)
      // A driver reads kernel files synchronously; requests must not wait for all guests together.
      await nextTurn()
    }
  }

  async #sampleDisks(): Promise<void> {
    const missing = [...this.#pids.keys()].some((uuid) => !this.#disk.has(uuid))
    const elapsedMs = this.context.now() - this.#diskAtMs
    if (elapsedMs < (missing ? newDiskIntervalMs : diskIntervalMs)) return
    this.#diskAtMs = this.context.now()
    this.#disk = await this.context.volumes.usage()
    this.#fresh = new Map()
  }

  async #sampleGuest(record: GuestRecord, pid: number): Promise<void> {
    try {
      const sample = await this.context.machines.driverOf(record).usage(this.context.machines.of(record), pid)
      const last = this.#last.get(record.uuid)
      const usage = usageOf(record, sample, last?.pid === pid ? last : undefined, this.context.now())
      this.#last.set(record.uuid, { pid, sample, usage })
      const kills = (sample.memoryKills ?? 0) - (last?.pid === pid ? (last.sample.memoryKills ?? 0) : 0)
      // Without an earlier sample by this agent, the time of the kills is unknown.
      if (last?.pid === pid && kills > 0) this.#onMemoryKills(record.uuid, kills)
    } catch (error) {
      // The guest may just have ended; the next comparison will show that.
      this.context.log.debug({ guest: record.uuid, reason: describeError(error) }, 'no measurement yet')
    }
  }
}

function usageOf(record: GuestRecord, sample: UsageSample, last: GuestSample | undefined, nowMs: number): ProcessUsage {
  const elapsedMs = last ? Math.max(1, nowMs - last.usage.sampledAtMs) : 0
  const processors = record.spec.limits.vcpuMilli / 1000
  const used = last ? (sample.cpuUsec - last.sample.cpuUsec) / (elapsedMs * 1000 * processors) : 0
  return {
    cpuPercent: Math.min(100, Math.max(0, used * 100)),
    cpuUsec: sample.cpuUsec,
    memoryBytes: sample.memoryBytes,
    rxBytes: sample.rxBytes,
    txBytes: sample.txBytes,
    load: last ? nextLoad(last.usage.load, sample.runnable, elapsedMs) : [0, 0, 0],
    sampledAtMs: nowMs,
  }
}
