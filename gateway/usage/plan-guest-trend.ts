/** Hourly numbers of guests, oldest first. */
export interface GuestCountHistory {
  /** First hour, counted since 1970. */
  readonly firstHour: number
  /** `null`: the number was not recorded in that hour. */
  readonly counts: readonly (number | null)[]
}

export const hourMs = 3_600_000
const hoursOfDay = 24
export const trendDays = 90
const mostHours = trendDays * hoursOfDay

export const noGuestCounts: GuestCountHistory = { firstHour: 0, counts: [] }

export function hasHour({ firstHour, counts }: GuestCountHistory, hour: number): boolean {
  return typeof counts[hour - firstHour] === 'number'
}

/**
 * Adds the number of guests in an hour. Hours between the last record and this hour remain unknown. If the clock was
 * set back, records of later hours are kept.
 */
export function planRecorded(history: GuestCountHistory, hour: number, count: number): GuestCountHistory {
  if (hasHour(history, hour)) return history
  const lastHour = history.firstHour + history.counts.length - 1
  const isNew = history.counts.length === 0 || hour < history.firstHour || hour - lastHour >= mostHours
  if (isNew) return { firstHour: hour, counts: [count] }
  const length = Math.max(history.counts.length, hour - history.firstHour + 1)
  const counts = Array.from({ length }, (_, at) => history.counts[at] ?? null)
  counts[hour - history.firstHour] = count
  const surplus = Math.max(0, length - mostHours)
  return { firstHour: history.firstHour + surplus, counts: counts.slice(surplus) }
}

/**
 * Returns the last recorded number of each of the last 90 days, oldest first. A day has 24 hours, and the last day ends
 * with the present hour.
 * @returns null for days without a record
 */
export function planGuestTrend({ firstHour, counts }: GuestCountHistory, nowHour: number): (number | null)[] {
  const beginHour = nowHour + 1 - mostHours
  const days = Array.from<number | null>({ length: trendDays }).fill(null)
  for (const [at, count] of counts.entries()) {
    const day = Math.floor((firstHour + at - beginHour) / hoursOfDay)
    if (count !== null && day >= 0 && day < trendDays) days[day] = count
  }
  return days
}
