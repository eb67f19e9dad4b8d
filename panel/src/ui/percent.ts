/**
 * Returns a value in percent of its maximum. It can exceed 100.
 * @returns undefined if the value or its maximum is not known
 */
export function percentOf(value: number | null | undefined, max: number): number | undefined {
  const percent = (Number(value ?? Number.NaN) / max) * 100
  return max > 0 && Number.isFinite(percent) ? percent : undefined
}
