import { setImmediate as nextTurn } from 'node:timers/promises'
import { Coalescer } from '../../shared/async/coalescer.js'
import { describeError } from '../../shared/errors.js'
import type { ObservedGuest, UsageSample } from '../drivers/contract.js'
import type { GuestContext } from '../guests/context.js'
import type { GuestRecord } from '../guests/record/record.js'
import { nextLoad, type Load } from './load-average.js'

export interface GuestUsage {
  /** Usage of all the guest's processors together in percent, from 0 to 100. */
  cpuPercent: number
  /** Processor time since the guest's start, in microseconds. */
  cpuUsec: number
  memoryBytes: number
  diskBytes: number
  rxBytes: number
  txBytes: number
  load: Load
  sampledAtMs: number
}

/** Usage of a running guest. Disk usage is read separately, because stopped guests also have it. */
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
/** Minimum time in ms between two reads of new guests' disks, because reading a new disk starts a process. */
const newDiskIntervalMs = 5000
/** Maximum age in ms of a guest's disk usage that counts as fresh. */
const freshDiskMs = 2000

/** Samples every running guest at an interval, and answers reads from memory. */
export class GuestSampler {
  readonly #last = new Map<string, GuestSample>()
  #pids = new Map<string, number>()
  #disk = new Map<string, number>()
  #diskAtMs = 0
  /** Disk usages by the guest's uuid, as read by `freshUsage` since the last read of all disks. */
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

  /** Registers a listener that is called when the kernel has killed processes of a guest because memory ran out. */
  onMemoryKills(listener: (uuid: string, kills: number) => void): void {
    this.#onMemoryKills = listener
  }

  /** Updates the list of running guests after the host was compared with the journal. Samples new guests at once. */
  observed(observed: readonly ObservedGuest[]): void {
    const running = observed.flatMap((o) => (o.state === 'running' && o.pid ? [[o.uuid, o.pid] as const] : []))
    this.#pids = new Map(running)
    for (const uuid of this.#last.keys()) if (!this.#pids.has(uuid)) this.#last.delete(uuid)
    if (running.some(([uuid, pid]) => this.#last.get(uuid)?.pid !== pid)) void this.sample()
  }

  usage(uuid: string): GuestUsage {
    return { ...(this.#last.get(uuid)?.usage ?? none), diskBytes: this.diskBytes(uuid) ?? 0 }
  }

  /** Like `usage`, but with a disk usage that is at most two seconds old. */
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
      this.context.log.debug({ guest: uuid, reason: describeError(error) }, 'could not read a disk')
      return undefined // undefined makes callers use the last known disk usage
    }
  }

  /** Returns the last sample of a guest; undefined if it is not running or not sampled yet. */
  sampled(uuid: string): { pid: number; sample: UsageSample; atMs: number } | undefined {
    const last = this.#last.get(uuid)
    return last && { pid: last.pid, sample: last.sample, atMs: last.usage.sampledAtMs }
  }

  /** Returns the bytes that a running or stopped guest uses on the disk; undefined if they are unknown. */
  diskBytes(uuid: string): number | undefined {
    const countedBytes = this.#disk.get(uuid)
    const extraBytes = this.context.store.find(uuid)?.extraBytes ?? 0
    const ownBytes = countedBytes === undefined ? undefined : Math.max(0, countedBytes - extraBytes)
    return this.#last.get(uuid)?.sample.diskBytes ?? ownBytes
  }

  /** Samples all guests. Resolves when a sampling that began after this call has ended. Failures are logged. */
  sample(): Promise<void> {
    return this.#sampling.run()
  }

  #sampleAll(): Promise<void> {
    return this.#readAll().catch((err: unknown) =>
      this.context.log.warn({ err }, 'could not measure the resource usage of guests'),
    )
  }

  async #readAll(): Promise<void> {
    await this.#sampleDisks()
    for (const [uuid, pid] of this.#pids) {
      const record = this.context.store.find(uuid)
      if (record) await this.#sampleGuest(record, pid)
      // Drivers read kernel files synchronously, which blocks the event loop. This wait lets other requests run.
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
      // Ignores kills in the first sample of a process, because they can be from before the agent's start.
      if (last?.pid === pid && kills > 0) this.#onMemoryKills(record.uuid, kills)
    } catch (error) {
      // The guest may just have ended. The agent notices this at its next comparison of the host with the journal.
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
