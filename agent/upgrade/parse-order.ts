import type { UpgradeAgentRequest } from '../../proto/gen/berth/agent/v1/host.js'
import { invalidField } from '../../shared/errors.js'
import { parseJoinToken } from '../../shared/join-token.js'
import type { UpgradeOrder } from './contract.js'

/** Characters of a Debian version: deb-version(7). */
const versionPattern = /^[0-9][A-Za-z0-9.+~-]{0,63}$/

/** @throws {BerthError} `invalid_field`, `join_token_invalid` */
export function parseUpgrade({ address, token, version, rollback }: UpgradeAgentRequest): UpgradeOrder {
  if (!versionPattern.test(version)) throw invalidField('version', 'version: not a version of a package')
  if (parseJoinToken(token).address !== address) throw invalidField('address', 'address: differs from the token')
  return { address, token, version, rollback }
}
