import type { Operation } from '../catalog/operation.js'
import { RefusedError } from '../../client/index.js'
import { CliError, cliErrorOf } from '../errors.js'

/** Returns the error about a field of the API with the flag or argument that the user knows in place of the field. */
export function withFlag(cause: unknown, operation: Operation): unknown {
  const field = cause instanceof RefusedError ? cause.refusal.field : undefined
  const name = field && nameOf(field, operation)
  const error = cliErrorOf(cause)
  if (!name || !error?.message.startsWith(`${field}: `)) return cause
  return new CliError(error.exitCode, `${name}${error.message.slice(field.length)}`, error.hint)
}

function nameOf(field: string, operation: Operation): string | undefined {
  const flag = operation.flags.find((one) => one.field === field)
  if (flag) return `--${flag.name}`
  return operation.arguments.find((one) => one.field === field)?.label.toUpperCase()
}
