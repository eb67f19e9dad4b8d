import { statSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { deviceNodes, guestDevices, type GuestDevice } from '../../../shared/guest-devices.js'
import { run } from '../process/process.js'

export function hasGuestDevice(device: GuestDevice): boolean {
  return isDevice(deviceNodes[device].path)
}

/**
 * Creates device nodes for guests, named like the devices. Everyone can open these nodes. The host's own nodes are not
 * suitable. Without udev, only the host's root can open them, and no user of a guest is mapped to this root.
 */
export async function ensureDeviceNodes(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o711 })
  for (const device of guestDevices) {
    const path = join(directory, device)
    if (isDevice(path)) continue
    await rm(`${path}.new`, { force: true }) // a killed agent may have left this file
    await run('mknod', ['--mode=666', `${path}.new`, 'c', ...deviceNodes[device].numbers.split(':')])
    await rename(`${path}.new`, path)
  }
}

function isDevice(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isCharacterDevice() ?? false
}
