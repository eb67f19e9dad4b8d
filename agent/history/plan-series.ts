/*
 * The series of a guest or the host is a file of a fixed size with three rings: minutes, hours and days. A record
 * contains the number of its minute, hour or day since 1970, and seven figures. A new record overwrites the oldest one.
 * A record has 32 bytes, so that it never crosses a page boundary and is never written partially.
 */

/** Order of the figures in a record. */
export const figureNames = [
  ...(['cpuPercent', 'memoryBytes', 'diskBytes', 'rxBytesPerSec', 'txBytesPerSec'] as const),
  ...(['readBytesPerSec', 'writeBytesPerSec'] as const),
] as const
export type FigureName = (typeof figureNames)[number]

/** Usage of a guest or the host in one minute, hour or day. NaN: unknown. */
export type Figures = Readonly<Record<FigureName, number>>

export interface Tier {
  readonly stepSeconds: number
  /** Number of minutes, hours or days that the ring stores. A new one replaces the oldest one. */
  readonly size: number
  /** Offset in bytes of this ring in the series file. */
  readonly offset: number
}

export const recordBytes = 32
const sizes = { day: 1440, month: 744, year: 366 } as const

export type Range = keyof typeof sizes

/** The rings: minutes of a day, hours of a month, and days of a year (in UTC). */
export const tiers: Readonly<Record<Range, Tier>> = {
  day: { stepSeconds: 60, size: sizes.day, offset: 0 },
  month: { stepSeconds: 3600, size: sizes.month, offset: sizes.day * recordBytes },
  year: { stepSeconds: 86_400, size: sizes.year, offset: (sizes.day + sizes.month) * recordBytes },
}

export const seriesBytes = (sizes.day + sizes.month + sizes.year) * recordBytes

export interface Point {
  readonly index: number
  readonly figures: Figures
}

export interface SeriesWrite {
  readonly offset: number
  readonly bytes: Buffer
}

export function figuresOf(known: Partial<Figures>): Figures {
  return Object.fromEntries(figureNames.map((name) => [name, known[name] ?? NaN])) as Record<FigureName, number>
}

export function indexAt({ stepSeconds }: Tier, ms: number): number {
  return Math.floor(ms / 1000 / stepSeconds)
}

/** Plans the writes of records. Adjacent records share one write. @param points in chronological order */
export function planWrites(tier: Tier, points: readonly Point[]): SeriesWrite[] {
  const writes: { offset: number; parts: Buffer[] }[] = []
  for (const point of points) {
    const offset = tier.offset + (point.index % tier.size) * recordBytes
    const last = writes.at(-1)
    if (last && last.offset + last.parts.length * recordBytes === offset) last.parts.push(encode(point))
    else writes.push({ offset, parts: [encode(point)] })
  }
  return writes.map(({ offset, parts }) => ({ offset, bytes: Buffer.concat(parts) }))
}

function encode({ index, figures }: Point): Buffer {
  const record = Buffer.alloc(recordBytes)
  record.writeUInt32LE(index)
  for (const [at, name] of figureNames.entries()) record.writeFloatLE(figures[name], 4 + at * 4)
  return record
}

/** Finds the offset of a minute, hour or day in the series file; undefined if the file does not contain it. */
function findOffset(series: Buffer, tier: Tier, index: number): number | undefined {
  const offset = tier.offset + (index % tier.size) * recordBytes
  return index > 0 && series.readUInt32LE(offset) === index ? offset : undefined
}

/** Finds the figures of a minute, hour or day in the file; undefined if the file does not contain it. */
export function findPoint(series: Buffer, tier: Tier, index: number): Figures | undefined {
  const offset = findOffset(series, tier, index)
  return offset === undefined ? undefined : figuresAt((at) => series.readFloatLE(offset + 4 + at * 4))
}

function figuresAt(valueAt: (at: number) => number): Figures {
  return Object.fromEntries(figureNames.map((name, at) => [name, valueAt(at)])) as Record<FigureName, number>
}

/** Returns the mean of each figure over the elements in which the figure is known. */
export function meanOf(all: readonly Figures[]): Figures {
  return figuresAt((at) => {
    const known = all.map((figures) => figures[figureNames[at]!]).filter((value) => !Number.isNaN(value))
    return known.reduce((sum, value) => sum + value, 0) / known.length // NaN if the figure is never known
  })
}

type Coarse = Exclude<Range, 'day'>

/** Periods whose values are computed from shorter ones: hours of a month, and days of a year. */
export const coarse = ['month', 'year'] as const satisfies readonly Coarse[]

/** Hours (`month`) are computed from minutes (`day`), and days (`year`) from hours. */
const finer = { month: 'day', year: 'month' } as const

/** Returns how many minutes an hour has, or how many hours a day has. */
function partsOf(range: Coarse): number {
  return tiers[range].stepSeconds / tiers[finer[range]].stepSeconds
}

/** Computes an hour from its minutes, or a day from its hours. */
function rollUp(series: Buffer, range: Coarse, index: number): Figures | undefined {
  const [fine, parts] = [tiers[finer[range]], partsOf(range)]
  const known: Figures[] = []
  for (let part = index * parts; part < (index + 1) * parts; part++) {
    const figures = findPoint(series, fine, part)
    if (figures) known.push(figures)
  }
  return known.length > 0 ? meanOf(known) : undefined
}

/**
 * Computes missing hours from minutes, or missing days from hours, where the file still has these finer values. Call
 * this for hours first, because days are computed from hours.
 * @param steps.from index of the first hour or day to check; the file has all earlier ones
 * @param steps.end index after the last hour or day to check
 */
export function planRollUp(series: Buffer, range: Coarse, { from, end }: { from: number; end: number }): Point[] {
  const back = Math.floor(tiers[finer[range]].size / partsOf(range))
  const points: Point[] = []
  for (let index = Math.max(from, end - back); index < end; index++) {
    if (findOffset(series, tiers[range], index) !== undefined) continue
    const figures = rollUp(series, range, index)
    if (figures) points.push({ index, figures })
  }
  return points
}

export function applyWrites(series: Buffer, writes: readonly SeriesWrite[]): void {
  for (const { offset, bytes } of writes) bytes.copy(series, offset)
}

export interface History {
  /** Start of the first entry of `steps`, in ms since 1970. 0: no data. */
  readonly startMs: number
  readonly stepSeconds: number
  /** One entry for each minute, hour or day, oldest first. Entries without data exist, too. */
  readonly steps: readonly Figures[]
}

const unknown = figuresOf({})

/** Returns the history from the first interval with data to the present one; for `day`, to the last complete minute. */
export function planHistory(series: Buffer, range: Range, nowMs: number): History {
  const tier = tiers[range]
  const end = indexAt(tier, nowMs) + (range === 'day' ? 0 : 1)
  const steps: Figures[] = []
  let first = 0
  for (let index = end - tier.size; index < end; index++) {
    const figures = findPoint(series, tier, index)
    if (steps.length === 0 && !figures) continue
    if (steps.length === 0) first = index
    steps.push(figures ?? unknown)
  }
  return { startMs: first * tier.stepSeconds * 1000, stepSeconds: tier.stepSeconds, steps }
}

/** Adds the hours and days that have ended, as far as the file still has their minutes or hours. */
export function rollUpEnded(series: Buffer, nowMs: number): void {
  for (const range of coarse) {
    const points = planRollUp(series, range, { from: 0, end: indexAt(tiers[range], nowMs) })
    applyWrites(series, planWrites(tiers[range], points))
  }
}

/**
 * Completes a copy of the series file. Adds the hours and days that have ended but are not written yet, and the present
 * hour and day. Each of them replaces the oldest entry of its ring. The replaced entry no longer belongs to the range.
 */
export function completeSeries(series: Buffer, nowMs: number): void {
  for (const range of coarse) {
    const points = planRollUp(series, range, { from: 0, end: indexAt(tiers[range], nowMs) + 1 })
    applyWrites(series, planWrites(tiers[range], points))
  }
}
