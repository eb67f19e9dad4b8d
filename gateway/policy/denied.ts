import { BerthError } from '../../shared/errors.js'

/** The answer to an address outside the access policy. */
export function deniedByPolicy(): BerthError {
  return new BerthError('forbidden', 'access_policy_denied', 'the access policy does not allow this address')
}
