import { invalidField } from './errors.js'

/** Host devices that a container can use: `tun` for virtual network interfaces, `fuse` for file systems. */
export const guestDevices = ['tun', 'fuse'] as const
export type GuestDevice = (typeof guestDevices)[number]

/** Paths and numbers of the kernel's character devices (Documentation/admin-guide/devices.txt). */
export const deviceNodes: Readonly<Record<GuestDevice, { readonly path: string; readonly numbers: string }>> = {
  tun: { path: '/dev/net/tun', numbers: '10:200' },
  fuse: { path: '/dev/fuse', numbers: '10:229' },
}

/** @returns each device once, in a fixed order. @throws {BerthError} `invalid_field` */
export function parseGuestDevices(names: readonly string[], field = 'devices'): GuestDevice[] {
  const isKnown = (name: string): boolean => guestDevices.some((device) => device === name)
  if (!names.every(isKnown)) throw invalidField(field, `${field}: must contain only ${guestDevices.join(', ')}`)
  return guestDevices.filter((device) => names.includes(device))
}
