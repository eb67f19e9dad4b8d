import { BerthError } from '../../shared/errors.js'

/** Error for clients whose address the access policy does not permit. */
export function deniedByPolicy(): BerthError {
  return new BerthError('forbidden', 'access_policy_denied', 'the access policy does not allow this address')
}
