import { invalidField } from './errors.js'

/** Devices of the host that a container may be given: virtual network interfaces, and file systems in user space. */
export const guestDevices = ['tun', 'fuse'] as const
export type GuestDevice = (typeof guestDevices)[number]

/** @returns the devices in a fixed order, each once. @throws {BerthError} `invalid_field` */
export function parseGuestDevices(names: readonly string[], field = 'devices'): GuestDevice[] {
  const isKnown = (name: string): boolean => guestDevices.some((device) => device === name)
  if (!names.every(isKnown)) throw invalidField(field, `${field}: may contain ${guestDevices.join(', ')}`)
  return guestDevices.filter((device) => names.includes(device))
}
