import { Type } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import { guestDevices } from '../../../shared/guest-devices.js'
import { isBound, type Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import { oneOf } from '../../http/schema.js'

export const adminScope = 'security:settings'

export const DevicesSchema = Type.Array(oneOf(guestDevices), {
  maxItems: 16,
  description: `Devices of the host that a container may use: \`tun\` for /dev/net/tun (VPNs), \`fuse\` for /dev/fuse (sshfs, rclone). Default: no devices. Only allowed for callers with \`${adminScope}\` that are not bound to containers.`,
})
/** Only administrators may allow devices, because each device exposes kernel code of the host. @throws {BerthError} */
export function checkMayAllowDevices(caller: Principal, devices: readonly string[] = []): void {
  if (devices.length === 0) return
  if (isBound(caller) || !coversScope(caller.scopes, adminScope))
    throw new BerthError(
      'forbidden',
      'insufficient_scope',
      `devices: only for administrators; the caller needs the scope ${adminScope} and must not be bound to containers`,
      { field: 'devices' },
    )
}
