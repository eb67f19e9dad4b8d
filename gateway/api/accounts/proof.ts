import { Type, type Static } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import type { Proof } from '../../accounts/own-account.js'
import type { CodeFactor } from '../../accounts/two-factor.js'
import { trimmed } from '../../http/normalize.js'

/** A password to check. The rules for new passwords do not apply to it, because earlier rules were different. */
export const GivenPassword = Type.String({ minLength: 1, maxLength: 1024, description: 'Password of the account.' })

/** A new password. `checkNewPassword` checks the minimum length for each kind of account. */
export const NewPassword = Type.String({
  minLength: 1,
  maxLength: 1024,
  description: 'New password. Administrators need at least 12 characters, sub-users at least 8.',
})

export const SecondFactorSchema = Type.Object({
  code: Type.Optional(
    Type.String({ ...trimmed, minLength: 1, maxLength: 16, description: 'Code of the authenticator app.' }),
  ),
  recovery_code: Type.Optional(
    Type.String({
      ...trimmed,
      minLength: 1,
      maxLength: 64,
      description: 'Recovery code instead of `code`. Each recovery code works once.',
    }),
  ),
})

export const ProofSchema = Type.Object({
  password: Type.Optional(GivenPassword),
  ...SecondFactorSchema.properties,
})

/** @throws {BerthError} `missing_field` */
export function secondFactorOf(body: Static<typeof SecondFactorSchema>): CodeFactor {
  if (body.code !== undefined) return { code: body.code }
  if (body.recovery_code !== undefined) return { recoveryCode: body.recovery_code }
  throw new BerthError('invalid', 'missing_field', 'code: is required, unless recovery_code is sent', {
    field: 'code',
  })
}

/** @throws {BerthError} `missing_field` */
export function proofOf(body: Static<typeof ProofSchema>): Proof {
  return body.password === undefined ? secondFactorOf(body) : { password: body.password }
}
