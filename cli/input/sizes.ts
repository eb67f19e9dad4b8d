import { usageError } from '../errors.js'
import type { SizeUnit } from '../catalog/operation.js'

/** Number of bytes in each unit. Fields for traffic use decimal units, and all other fields use binary units. */
const bytesOf: Readonly<Record<SizeUnit, number>> = { B: 1, MiB: 2 ** 20, GiB: 2 ** 30, GB: 10 ** 9 }
const powers = ['', 'k', 'm', 'g', 't']

/**
 * Converts a size such as `512m`, `2g` or `1.5t` to a whole number of the field's unit. A number without a suffix is
 * already in this unit.
 * @throws {CliError} `usage`
 */
export function parseSize(text: string, unit: SizeUnit): number {
  const [, digits, suffix = ''] = /^(\d+(?:\.\d+)?)([kmgt]?)(?:i?b)?$/i.exec(text.trim()) ?? []
  if (digits === undefined) throw usageError(`${text}: not a size; write a number with k, m, g or t, such as 512m`)
  const base = unit === 'GB' ? 1000 : 1024
  const bytes = suffix === '' ? bytesOf[unit] : base ** powers.indexOf(suffix.toLowerCase())
  const size = (Number(digits) * bytes) / bytesOf[unit]
  if (!Number.isInteger(size)) throw usageError(`${text}: must be a multiple of 1 ${unit}`)
  return size
}
