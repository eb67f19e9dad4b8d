/*
 * The format of one guest's usage, or the host's: three rings in one file of a fixed size. A record contains the number
 * of its step since 1970 and seven figures. A new record overwrites the oldest. 32 bytes divide a page, so no record is
 * written partially.
 */

/** Order of the figures in a record. */
export const figureNames = [
  ...(['cpuPercent', 'memoryBytes', 'diskBytes', 'rxBytesPerSec', 'txBytesPerSec'] as const),
  ...(['readBytesPerSec', 'writeBytesPerSec'] as const),
] as const
export type FigureName = (typeof figureNames)[number]

/** Usage in one step of time; NaN: not known. */
export type Figures = Readonly<Record<FigureName, number>>

export interface Tier {
  readonly stepSeconds: number
  /** Number of records. */
  readonly size: number
  /** Offset of its ring in the file. */
  readonly offset: number
}

const recordBytes = 32
const sizes = { day: 1440, month: 744, year: 366 } as const

export type Range = keyof typeof sizes

/** A day of minutes, a month of hours, a year of days (in UTC). */
export const tiers: Readonly<Record<Range, Tier>> = {
  day: { stepSeconds: 60, size: sizes.day, offset: 0 },
  month: { stepSeconds: 3600, size: sizes.month, offset: sizes.day * recordBytes },
  year: { stepSeconds: 86_400, size: sizes.year, offset: (sizes.day + sizes.month) * recordBytes },
}

export const seriesBytes = (sizes.day + sizes.month + sizes.year) * recordBytes

/** One step of a tier. */
export interface Point {
  /** Number of the step since 1970. */
  readonly index: number
  readonly figures: Figures
}

/** Bytes and where they belong in the file. */
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

/** Plans the writes of records; adjacent records share one write. @param points in chronological order */
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

/** Offset of a step in the file; undefined if the file does not contain it. */
function findOffset(series: Buffer, tier: Tier, index: number): number | undefined {
  const offset = tier.offset + (index % tier.size) * recordBytes
  return index > 0 && series.readUInt32LE(offset) === index ? offset : undefined
}

/** The figures of a step in the file; undefined if the file does not contain it. */
export function findPoint(series: Buffer, tier: Tier, index: number): Figures | undefined {
  const offset = findOffset(series, tier, index)
  return offset === undefined ? undefined : figuresAt((at) => series.readFloatLE(offset + 4 + at * 4))
}

function figuresAt(valueAt: (at: number) => number): Figures {
  return Object.fromEntries(figureNames.map((name, at) => [name, valueAt(at)])) as Record<FigureName, number>
}

/** Each figure's mean over the steps that know it. */
export function meanOf(all: readonly Figures[]): Figures {
  return figuresAt((at) => {
    const known = all.map((figures) => figures[figureNames[at]!]).filter((value) => !Number.isNaN(value))
    return known.reduce((sum, value) => sum + value, 0) / known.length // NaN if there are none
  })
}

type Coarse = Exclude<Range, 'day'>

/** Rings that are aggregated from the finer one. */
export const coarse = ['month', 'year'] as const satisfies readonly Coarse[]

/** The next finer ring, from which this one is aggregated. */
const finer = { month: 'day', year: 'month' } as const

/** Number of steps of the next finer ring in one step of this one. */
function partsOf(range: Coarse): number {
  return tiers[range].stepSeconds / tiers[finer[range]].stepSeconds
}

/** Aggregates a step from the next finer ring. */
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
 * Plans hours or days that are missing in their ring, as far back as the finer ring reaches. These include steps that
 * ended while no agent ran. A day is aggregated from hours, so hours must be added first.
 * @param steps.from earlier steps are known to exist
 * @param steps.end first step that is not checked
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

/** Applies writes to a copy of the file. */
export function applyWrites(series: Buffer, writes: readonly SeriesWrite[]): void {
  for (const { offset, bytes } of writes) bytes.copy(series, offset)
}

export interface History {
  /** Start of the first step; 0: no data. */
  readonly startMs: number
  readonly stepSeconds: number
  /** One entry for each step, without gaps, oldest first. */
  readonly steps: readonly Figures[]
}

const unknown = figuresOf({})

/** The history from the first known step to the present one. For minutes it ends with the last complete one. */
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

/**
 * Adds ended steps that are not written yet, and the present hour and day so far, to a copy of the file. They replace
 * the oldest steps, which are out of range by then.
 */
export function completeSeries(series: Buffer, nowMs: number): void {
  for (const range of coarse) {
    const points = planRollUp(series, range, { from: 0, end: indexAt(tiers[range], nowMs) + 1 })
    applyWrites(series, planWrites(tiers[range], points))
  }
}
