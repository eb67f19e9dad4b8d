import { BerthError } from '../../shared/errors.js'

/** Returns the field that a check refuses. @throws if the check accepts the value or fails for another reason */
export function failedField(check: () => unknown): string | undefined {
  try {
    check()
  } catch (error) {
    if (error instanceof BerthError && error.code === 'invalid_field') return error.field
    throw error
  }
  throw new Error('accepted')
}
