import { Type } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'

const time = Type.String({
  maxLength: 64,
  description: 'Inclusive. `YYYY-MM-DD HH:MM[:SS]`, RFC 3339, a date or Unix seconds.',
})

/** Query parameters of logs. */
export const spanQuery = { from: time, to: time } as const

/** As an end it is the last second of that day, as a beginning the first one. */
const bareDate = /^\d{4}-\d{2}-\d{2}$/

/**
 * The requested span, both ends inclusive.
 * @throws {BerthError} `invalid_field`
 */
export function parseSpan(
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
  format: TimeFormat,
): { fromMs: number | undefined; toMs: number | undefined } {
  return {
    fromMs: from === undefined ? undefined : format.parseField('from', from.replace(bareDate, '$& 00:00:00')),
    // Times are in whole seconds; the named second is included.
    toMs: to === undefined ? undefined : format.parseField('to', to) + 999,
  }
}
