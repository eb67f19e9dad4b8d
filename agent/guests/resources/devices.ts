import { BerthError } from '../../../shared/errors.js'
import type { GuestDevice } from '../../../shared/guest-devices.js'
import type { DriverKind } from '../../drivers/drivers.js'
import { hasGuestDevice } from '../../host/guest/guest-devices.js'

/** Checks devices. @throws {BerthError} `unsupported` for a virtual machine, and for a device that the host lacks */
export function checkDevices(devices: readonly GuestDevice[], virtualization: DriverKind): void {
  if (devices.length === 0) return
  if (virtualization === 'kvm')
    throw unsupported('only available for LXC containers: a virtual machine has these devices in its own kernel')
  const missing = devices.find((device) => !hasGuestDevice(device))
  if (missing !== undefined) throw unsupported(`the host has no device ${missing}: load its kernel module`)
}

function unsupported(why: string): BerthError {
  return new BerthError('invalid', 'unsupported', `devices: ${why}`, { field: 'devices' })
}
