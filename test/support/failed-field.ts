import { BerthError } from '../../shared/errors.js'

/** The field that a check refuses. @throws when it accepts, or fails otherwise */
export function failedField(check: () => unknown): string | undefined {
  try {
    check()
  } catch (error) {
    if (error instanceof BerthError && error.code === 'invalid_field') return error.field
    throw error
  }
  throw new Error('accepted')
}
