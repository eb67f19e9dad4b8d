import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { Mutex } from '../../shared/async/mutex.js'
import type { GuestStore } from '../guests/record/guest-store.js'
import { planFigures, type Reading } from './plan-figures.js'
import {
  applyWrites,
  coarse,
  completeSeries,
  indexAt,
  planHistory,
  planRollUp,
  planWrites,
  tiers,
  type Figures,
  type History,
  type Point,
  type Range,
  type SeriesWrite,
} from './plan-series.js'
import { hostSeries, type SeriesFiles } from './series-files.js'

/** The last reading of a guest's or the host's counters, and its disk usage. */
export interface HistorySample {
  readonly reading: Reading | undefined
  readonly diskBytes: number | undefined
}

export interface HistoryParts {
  readonly files: SeriesFiles
  readonly store: Pick<GuestStore, 'list' | 'find' | 'changes'>
  readonly sampleGuest: (uuid: string) => HistorySample
  readonly sampleHost: () => HistorySample
  readonly hostProcessors: number
  /** Time in ms between two writes of recorded minutes. A crash loses the minutes that are not written yet. */
  readonly writeEveryMs: number
  readonly log: Logger
  readonly now: () => number
}

export type HistoryReader = Pick<UsageHistory, 'readGuest' | 'readHost'>

const minuteMs = 60_000
/** Maximum number of minutes of a series that are kept in memory while the disk is full. */
const mostPending = 120
/** Number of series that are read or written in one turn of the event loop. */
const seriesInTurn = 5

/**
 * Records the usage of each guest and of the host over time, from counters that are sampled for other purposes. Several
 * minutes are written together. Hours and days are written once an hour.
 */
export class UsageHistory {
  readonly #before = new Map<string, Reading>()
  /** For each series: number of the hour (since 1970) up to which hours and days were computed. */
  readonly #rolled = new Map<string, number>()
  readonly #unlisten: () => void
  #recorded = 0
  #writtenAtMs: number
  #timer: NodeJS.Timeout | undefined
  readonly #recording = new Mutex()
  #closed = false

  constructor(private readonly parts: HistoryParts) {
    this.#writtenAtMs = parts.now()
    this.#unlisten = parts.store.changes.onChange(({ kind, key, removed }) => {
      if (kind === 'guest' && removed) this.#forget(key)
    })
  }

  /** Begins to record usage with the next minute. Deletes the recorded usage of guests that no longer exist. */
  start(): void {
    for (const key of this.parts.files.keys()) if (key !== hostSeries && !this.parts.store.find(key)) this.#forget(key)
    this.look()
    this.#schedule()
  }

  #schedule(): void {
    const leftMs = minuteMs - (this.parts.now() % minuteMs)
    this.#timer = setTimeout(() => {
      void this.tick()
      this.#schedule()
    }, leftMs)
    this.#timer.unref()
  }

  /** Stops recording, and writes the collected minutes. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unlisten()
    await this.#recording.settled()
    await this.#write(this.parts.now())
  }

  /** Reads the counters at the start. The first recorded minute is the difference to these readings. */
  look(): void {
    const { store, sampleGuest, sampleHost } = this.parts
    this.#note(hostSeries, sampleHost())
    for (const { uuid } of store.list()) this.#note(uuid, sampleGuest(uuid))
  }

  #note(key: string, { reading }: Pick<HistorySample, 'reading'>): Reading | undefined {
    const before = this.#before.get(key)
    if (reading) this.#before.set(key, reading)
    else this.#before.delete(key)
    return before
  }

  /** Called at the end of each minute: records the minute's usage. A failure is only logged and leaves a gap. */
  tick(): Promise<void> {
    if (this.#closed) return this.#recording.settled()
    return this.#recording.run(() =>
      this.#record().catch((err: unknown) => this.parts.log.warn({ err }, 'could not record the resource usage')),
    )
  }

  /** Reads the history of a guest. @param uuid uuid of an existing guest */
  readGuest(uuid: string, range: Range): History {
    return this.#read(uuid, range)
  }

  readHost(range: Range): History {
    return this.#read(hostSeries, range)
  }

  #read(key: string, range: Range): History {
    const series = this.parts.files.readLatest(key)
    const nowMs = this.parts.now()
    completeSeries(series, nowMs)
    return planHistory(series, range, nowMs)
  }

  async #record(): Promise<void> {
    const { store, sampleGuest, sampleHost, hostProcessors, writeEveryMs } = this.parts
    const nowMs = this.parts.now()
    const index = indexAt(tiers.day, nowMs) - 1
    // A timer can fire slightly early. This check prevents two readings within milliseconds.
    if (index === this.#recorded) return
    this.#recorded = index
    this.#gather(hostSeries, index, sampleHost(), hostProcessors)
    for (const [count, { uuid, spec, ownership }] of store.list().entries()) {
      // The host that sends an arriving guest records its usage.
      if (store.find(uuid) && ownership.role !== 'arriving')
        this.#gather(uuid, index, sampleGuest(uuid), spec.limits.vcpuMilli / 1000)
      if (count % 100 === 99) await nextTurn()
    }
    if (nowMs - this.#writtenAtMs >= writeEveryMs) await this.#write(nowMs)
  }

  #gather(key: string, index: number, sampled: HistorySample, processors: number): void {
    const { reading, diskBytes } = sampled
    const figures = planFigures(this.#note(key, sampled), reading, { processors, diskBytes })
    if (!isKnown(figures)) return
    const points = this.parts.files.pending.get(key) ?? []
    if (points.length > 0 && points.at(-1)!.index >= index) return // the clock was set back
    points.push({ index, figures })
    if (points.length > mostPending) points.shift()
    this.parts.files.pending.set(key, points)
  }

  async #write(nowMs: number): Promise<void> {
    this.#writtenAtMs = nowMs
    const failures: unknown[] = []
    for (const [count, [key, points]] of [...this.parts.files.pending].entries()) {
      if (count % seriesInTurn === 0) await nextTurn()
      if (key !== hostSeries && !this.parts.store.find(key)) continue // the guest has been deleted
      try {
        this.#writeSeries(key, points, nowMs)
        this.parts.files.pending.delete(key)
      } catch (err) {
        failures.push(err) // the disk can be full: these minutes are written with the next ones
      }
    }
    if (failures.length > 0)
      this.parts.log.warn(
        { err: failures[0], series: failures.length },
        'could not write the history of resource usage',
      )
  }

  #writeSeries(key: string, points: readonly Point[], nowMs: number): void {
    const { files } = this.parts
    files.write(key, planWrites(tiers.day, points))
    if (this.#rolled.get(key) === indexAt(tiers.month, nowMs)) return
    files.write(key, this.#rollUp(key, nowMs))
    this.#rolled.set(key, indexAt(tiers.month, nowMs))
  }

  /** Computes the ended hours and days of a series. The first call after the agent's start checks all of them. */
  #rollUp(key: string, nowMs: number): SeriesWrite[] {
    const rolledMs = (this.#rolled.get(key) ?? 0) * tiers.month.stepSeconds * 1000
    const series = this.parts.files.read(key)
    return coarse.flatMap((range) => {
      const [from, end] = [indexAt(tiers[range], rolledMs), indexAt(tiers[range], nowMs)]
      const writes = planWrites(tiers[range], planRollUp(series, range, { from, end }))
      applyWrites(series, writes)
      return writes
    })
  }

  #forget(key: string): void {
    for (const memory of [this.#before, this.parts.files.pending, this.#rolled]) memory.delete(key)
    this.parts.files.remove(key)
  }
}

function isKnown(figures: Figures): boolean {
  return Object.values(figures).some((value) => !Number.isNaN(value))
}
