import type { Buffer } from 'node:buffer'
import { BerthError } from '../../shared/errors.js'

/**
 * Improves the error for a required field that was sent as `""` or null. Such a field counts as absent. The message
 * should nevertheless state that the field is empty.
 */
export function explainMissing(
  error: unknown,
  { bodyBytes }: { readonly bodyBytes: Buffer },
  querystring: string,
): unknown {
  if (!(error instanceof BerthError) || error.code !== 'missing_field') return error
  const { field, message } = error
  if (field === undefined || !wasSent(field, bodyBytes, querystring)) return error
  const text = message.replace(/: is required\b/, ': must not be empty')
  return new BerthError(error.kind, error.code, text, { field, cause: error, rule: { name: 'not_empty' } })
}

function wasSent(field: string, bodyBytes: Buffer, querystring: string): boolean {
  if (new URLSearchParams(querystring).has(field)) return true
  const steps = field.split(/[.[\]]+/).filter((step) => step !== '')
  let value = parse(bodyBytes)
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return false
    value = (value as Record<string, unknown>)[step]
  }
  return steps.length > 0
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}
