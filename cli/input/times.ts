const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 }

/** True for fields that contain a time. They also accept relative times such as `+30d` and `-2h`. */
export const isTimeField = (field: string): boolean => /^(from|to|until|deadline)$|_at$/.test(field)

/** Converts a relative time such as `+30d` to RFC 3339. Other texts stay unchanged, because the gateway checks them. */
export function parseTime(text: string, nowMs: number): string {
  const [, sign, count, unit = ''] = /^([+-])(\d{1,6})([smhdw])$/.exec(text) ?? []
  if (sign === undefined) return text
  const distance = Number(count) * unitMs[unit]!
  return new Date(nowMs + (sign === '+' ? distance : -distance)).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** Converts a duration such as `90`, `30s`, `5m` or `1h` to milliseconds; undefined if the text is not a duration. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit = 's'] = /^(\d{1,6})([smhdw])?$/.exec(text) ?? []
  return count === undefined ? undefined : Number(count) * unitMs[unit]!
}
