import type { UpgradeAgentRequest } from '../../proto/gen/berth/agent/v1/host.js'
import { invalidField } from '../../shared/errors.js'
import { parseJoinToken } from '../../shared/join-token.js'
import type { UpgradeOrder } from './contract.js'

/** Characters of a Debian version: deb-version(7). */
const versionPattern = /^[0-9][A-Za-z0-9.+~-]{0,63}$/

/** @throws {BerthError} `invalid_field`, `join_token_invalid` */
export function parseUpgrade({ address, token, version, rollback }: UpgradeAgentRequest): UpgradeOrder {
  if (!versionPattern.test(version))
    throw invalidField('version', 'version: must be the version of a package, for example "0.1.0"')
  if (parseJoinToken(token).address !== address)
    throw invalidField('address', 'address: must be the address in the join token')
  return { address, token, version, rollback }
}
