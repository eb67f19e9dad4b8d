import { findExceeded, type Allocation, type HostSize, type Ratios } from '../../shared/allocation.js'

/** Values in equal steps, oldest first. NaN: the value is not known. */
export interface Series {
  /** Start of the first step, in ms since 1970. */
  readonly startMs: number
  readonly stepMs: number
  readonly values: readonly number[]
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Number of points in the history of a host's processor usage, and the time that each of them covers. */
export const sparkline = { points: 48, stepMs: dayMs / 48 } as const

/**
 * Averages the last 24 hours into a few points, oldest first. The last point ends now.
 * @returns null for points without a known value
 */
export function planSparkline({ startMs, stepMs, values }: Series, nowMs: number): (number | null)[] {
  const sums = Array.from({ length: sparkline.points }, () => ({ sum: 0, count: 0 }))
  const beginMs = nowMs - sparkline.points * sparkline.stepMs
  for (const [index, value] of values.entries()) {
    const point = sums[Math.floor((startMs + index * stepMs - beginMs) / sparkline.stepMs)]
    if (!point || !Number.isFinite(value) || value < 0) continue
    point.sum += value
    point.count++
  }
  return sums.map(({ sum, count }) => (count === 0 ? null : Math.round((sum / count) * 10) / 10))
}

/** Minimum time in ms from the first to the last known value of a trend. */
const trendMs = 3 * dayMs
/** Maximum number of days that a trend can predict. */
const mostDays = 730

/**
 * Extrapolates the growth of a disk's usage, by a least-squares line.
 * @returns whole days until the usage reaches `totalBytes`; null if the history is too short, or the disk will not be
 * full within two years
 */
export function planDaysUntilFull({ startMs, stepMs, values }: Series, totalBytes: number): number | null {
  const known = [...values.entries()].filter(([, value]) => Number.isFinite(value) && value >= 0)
  const [first, last] = [known[0], known.at(-1)]
  if (!first || !last || totalBytes <= 0 || (last[0] - first[0]) * stepMs < trendMs || startMs <= 0) return null
  const mean = (list: readonly number[]): number => list.reduce((sum, one) => sum + one, 0) / list.length
  const [meanAt, meanBytes] = [mean(known.map(([at]) => at)), mean(known.map(([, bytes]) => bytes))]
  const spread = known.reduce((sum, [at]) => sum + (at - meanAt) ** 2, 0)
  const bytesPerStep = known.reduce((sum, [at, bytes]) => sum + (at - meanAt) * (bytes - meanBytes), 0) / spread
  const days = (Math.max(0, totalBytes - last[1]) / bytesPerStep) * (stepMs / dayMs)
  return bytesPerStep > 0 && days <= mostDays ? Math.floor(days) : null
}

/** Maximum result of `planFits`, because a host without limits has room for any number of guests. */
const mostGuests = 100_000

/** Returns how many additional guests that need `size` fit on a host. */
export function planFits(
  { allocated, capacity, ratios }: { allocated: Allocation; capacity: HostSize | undefined; ratios: Ratios },
  size: Allocation,
): number {
  const withMore = (count: number): Allocation => ({
    vcpuMilli: allocated.vcpuMilli + count * size.vcpuMilli,
    ramMb: allocated.ramMb + count * size.ramMb,
    diskGb: allocated.diskGb + count * size.diskGb,
  })
  let [fits, tooMany] = [0, mostGuests + 1]
  while (tooMany - fits > 1) {
    const count = Math.floor((fits + tooMany) / 2)
    if (findExceeded(withMore(count), capacity, ratios)) tooMany = count
    else fits = count
  }
  return fits
}
