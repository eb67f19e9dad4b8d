import type { Principal } from '../../../gateway/access/principal.js'

/** Returns a caller with all rights that uses the API key `keyId`. */
export function administratorOf(keyId: number): Principal {
  return {
    kind: 'key',
    ref: `key:${keyId}`,
    root: `key:${keyId}`,
    keyId,
    user: 'api:admin',
    scopes: ['*'],
    guests: 'all',
    unlimited: true,
  }
}
