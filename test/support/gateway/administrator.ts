import type { Principal } from '../../../gateway/access/principal.js'

/** A caller with the key `keyId` and every right. */
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
