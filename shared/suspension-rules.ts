import { invalidField } from './errors.js'

/* Rules for a suspension, checked by the gateway and again by the agent. */

export const suspensionModes = ['stop', 'network'] as const
/** Mode of a suspension. `stop` stops the guest; `network` lets it run, but without any network. */
export type SuspensionMode = (typeof suspensionModes)[number]

/** Printable text on one line, for a regular expression with the flag `u`. */
export const suspensionTextPattern = '^[^\\p{Cc}\\u2028\\u2029]{0,500}$'

const text = new RegExp(suspensionTextPattern, 'u')

/** @throws {BerthError} `invalid_field` */
export function checkSuspensionText(field: string, value: string): string {
  if (!text.test(value)) throw invalidField(field, `${field}: must be at most 500 printable characters on one line`)
  return value
}
