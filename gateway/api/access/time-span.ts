import { Type } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'

const time = (which: string, ofDate: string) =>
  Type.String({
    maxLength: 64,
    description: `Time of the ${which} entry to return, inclusive: \`YYYY-MM-DD HH:MM[:SS]\`, RFC 3339, a date (the ${ofDate} of that day) or Unix seconds.`,
  })

/** Query parameters of log routes that select a period of time. */
export const spanQuery = { from: time('oldest', 'beginning'), to: time('newest', 'end') } as const

/** A date without a time. As `from` it means the first second of the day, as `to` the last second. */
const bareDate = /^\d{4}-\d{2}-\d{2}$/

/** Parses a period of time, which includes its start and its end. @throws {BerthError} `invalid_field` */
export function parseSpan(
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
  format: TimeFormat,
): { fromMs: number | undefined; toMs: number | undefined } {
  return {
    fromMs: from === undefined ? undefined : format.parseField('from', from.replace(bareDate, '$& 00:00:00')),
    // Times are whole seconds. The last millisecond of the last second belongs to the period.
    toMs: to === undefined ? undefined : format.parseField('to', to) + 999,
  }
}
