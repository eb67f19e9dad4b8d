import { invalidField } from './errors.js'

/** Devices of the host that a container can use: virtual network interfaces and file systems in user space. */
export const guestDevices = ['tun', 'fuse'] as const
export type GuestDevice = (typeof guestDevices)[number]

/** Character devices of the kernel (Documentation/admin-guide/devices.txt). */
export const deviceNodes: Readonly<Record<GuestDevice, { readonly path: string; readonly numbers: string }>> = {
  tun: { path: '/dev/net/tun', numbers: '10:200' },
  fuse: { path: '/dev/fuse', numbers: '10:229' },
}

/** @returns the devices in a fixed order, each once. @throws {BerthError} `invalid_field` */
export function parseGuestDevices(names: readonly string[], field = 'devices'): GuestDevice[] {
  const isKnown = (name: string): boolean => guestDevices.some((device) => device === name)
  if (!names.every(isKnown)) throw invalidField(field, `${field}: may contain ${guestDevices.join(', ')}`)
  return guestDevices.filter((device) => names.includes(device))
}
