/*
 * What is kept of one guest's use, or the host's: three rings in one file of a fixed size. A record is the number of
 * its step since 1970 and seven figures; one that a ring has no room for any more is overwritten. 32 bytes divide a
 * page: no record is written in halves.
 */

/** In this order in a record. */
export const figureNames = [
  ...(['cpuPercent', 'memoryBytes', 'diskBytes', 'rxBytesPerSec', 'txBytesPerSec'] as const),
  ...(['readBytesPerSec', 'writeBytesPerSec'] as const),
] as const
export type FigureName = (typeof figureNames)[number]

/** Use in one step of time; NaN: not known. */
export type Figures = Readonly<Record<FigureName, number>>

export interface Tier {
  readonly stepSeconds: number
  /** Records. */
  readonly size: number
  /** Of its ring in the file. */
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

/** Of one step of a tier. */
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

/** Records that follow one another in the ring are one write. @param points in the order of time */
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

/** Where a step is in the file, if it is there. */
function findOffset(series: Buffer, tier: Tier, index: number): number | undefined {
  const offset = tier.offset + (index % tier.size) * recordBytes
  return index > 0 && series.readUInt32LE(offset) === index ? offset : undefined
}

/** What the file has of a step; undefined: nothing. */
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
    return known.reduce((sum, value) => sum + value, 0) / known.length // of none: NaN
  })
}

type Coarse = Exclude<Range, 'day'>

/** Each is made of the one before. */
export const coarse = ['month', 'year'] as const satisfies readonly Coarse[]

/** The next finer ring, which a step of this one is made of. */
const finer = { month: 'day', year: 'month' } as const

/** Steps of the next finer ring in one of this. */
function partsOf(range: Coarse): number {
  return tiers[range].stepSeconds / tiers[finer[range]].stepSeconds
}

/** Of what the finer ring has of it. */
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
 * Hours or days that are not in their ring yet, as far as the finer ring goes back: also those that were over while no
 * agent ran. A day is made of hours, which are therefore put there first.
 * @param steps.from those before it are known to be there
 * @param steps.end the first that is not looked at
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

/** Into a copy of the file. */
export function applyWrites(series: Buffer, writes: readonly SeriesWrite[]): void {
  for (const { offset, bytes } of writes) bytes.copy(series, offset)
}

export interface History {
  /** Beginning of the first step; 0: nothing is known. */
  readonly startMs: number
  readonly stepSeconds: number
  /** One a step, without holes, the oldest first. */
  readonly steps: readonly Figures[]
}

const unknown = figuresOf({})

/** From the first step of which anything is known to the one that is under way, or of minutes the one before it. */
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
 * Puts what is over and not written yet, and what there is of the hour and the day that are under way, into a copy of
 * the file. Their places had the oldest steps, which are out of range by then.
 */
export function completeSeries(series: Buffer, nowMs: number): void {
  for (const range of coarse) {
    const points = planRollUp(series, range, { from: 0, end: indexAt(tiers[range], nowMs) + 1 })
    applyWrites(series, planWrites(tiers[range], points))
  }
}
