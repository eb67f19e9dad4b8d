import { systemVolumeOf, type Machine } from '../machine.js'
import type { DiskSystem } from './disk-system.js'
import { diskOf, firmwareVarsOf } from './paths.js'
import { throttleLimits } from './plan-throttle.js'

/** Names that commands to QEMU use for its devices and block nodes. */
export const diskParts = { disk: 'disk', diskDevice: 'disk0', throttle: 'throttle0' } as const

/** A file that launch-machine.pl opens for QEMU. */
export interface Medium {
  /** Name of the file. `%{NAME}` in the arguments stands for its descriptor. */
  readonly name: string
  /** Number of QEMU's file descriptor set that contains the file's descriptor. */
  readonly set: number
  readonly path: string
  /** `direct` means that the file is read and written without the page cache. */
  readonly access: 'direct' | 'write' | 'read'
}

export interface MediaFacts {
  readonly system: DiskSystem
  readonly seed: string
  /** Path of a CD with drivers of virtual devices, for systems that lack them. Undefined: the guest gets no such CD. */
  readonly driversCd?: string
  /** Path of the firmware; undefined for QEMU's own BIOS. */
  readonly firmware?: string
}

/** Returns the files that a guest uses, according to its boot source and its system. */
export function planMedia(machine: Machine, facts: MediaFacts): Medium[] {
  const { volume, boot } = machine
  const { system, seed, driversCd, firmware } = facts
  const media: (Medium | undefined)[] = [
    { name: 'disk', set: 1, path: diskOf(volume), access: 'direct' },
    { name: 'seed', set: 2, path: seed, access: 'read' },
    boot?.mode === 'rescue' ? { name: 'rescue', set: 3, path: diskOf(boot.volume), access: 'direct' } : undefined,
    boot?.mode === 'cdrom' ? { name: 'cd', set: 4, path: boot.iso, access: 'read' } : undefined,
    driversCd !== undefined && system.os === 'windows'
      ? { name: 'drivers', set: 5, path: driversCd, access: 'read' }
      : undefined,
    ...(firmware === undefined ? [] : planFirmwareMedia(firmware, systemVolumeOf(machine))),
  ]
  return media.filter((medium) => medium !== undefined)
}

function planFirmwareMedia(firmware: string, volume: string): Medium[] {
  return [
    { name: 'code', set: 6, path: firmware, access: 'read' },
    { name: 'vars', set: 7, path: firmwareVarsOf(volume), access: 'write' },
  ]
}

/**
 * Plans QEMU's arguments for disks and CDs, in the order in which the guest sees them. The device to boot from has the
 * lowest boot index, and the guest's disk has the next index.
 */
export function planDisks(
  { limits }: Pick<Machine, 'limits'>,
  { system }: Pick<MediaFacts, 'system'>,
  media: readonly Medium[],
): string[] {
  const has = (name: string): boolean => media.some((medium) => medium.name === name)
  const { throttle } = diskParts
  const group = { 'qom-type': 'throttle-group', id: throttle, limits: throttleLimits(limits) }
  return [
    ...media.flatMap(({ name, set }) => ['-add-fd', `fd=%{${name}},set=${set}`]),
    '-object',
    JSON.stringify(group),
    ...media.flatMap(planNodes),
    ...(has('rescue') ? virtioDisk('rescue', 'id=rescue0,bootindex=0,serial=berth-rescue') : []),
    ...virtioDisk(diskParts.disk, `id=${diskParts.diskDevice},${orderOf(has)}serial=berth-root`),
    // Debian's cloud kernel has no driver for CD drives, and Windows has no driver for virtual disks.
    ...(system.os === 'windows' ? cd('seed', 2) : virtioDisk('seed', 'id=seed0,serial=berth-seed')),
    ...(has('cd') ? cd('cd', 0, ',bootindex=0') : []),
    ...(has('drivers') ? cd('drivers', 1) : []),
  ]
}

/** Returns the boot option of the guest's own disk. In rescue mode it is empty, because the disk must not boot. */
function orderOf(has: (name: string) => boolean): string {
  return has('rescue') ? '' : 'bootindex=1,'
}

function virtioDisk(node: string, options: string): string[] {
  return ['-device', `virtio-blk-pci,drive=${node},${options}`]
}

/** Plans a CD drive. @param port port of the board's own controller */
function cd(node: string, port: number, options = ''): string[] {
  return ['-device', `ide-cd,bus=ide.${port},drive=${node},id=${node}0${options}`]
}

function planNodes({ name, set, access }: Medium): string[] {
  const filename = `/dev/fdset/${set}`
  if (access === 'direct') return planDiskNodes(name, filename)
  const readOnly = access === 'read'
  return [
    ...blockdev({ driver: 'file', 'node-name': `${name}-file`, filename, 'read-only': readOnly }),
    ...blockdev({ driver: 'raw', 'node-name': name, file: `${name}-file`, 'read-only': readOnly }),
  ]
}

function planDiskNodes(name: string, filename: string): string[] {
  const unmap = { discard: 'unmap' }
  const file = { driver: 'file', 'node-name': `${name}-file`, filename, ...unmap }
  const raw = { driver: 'raw', 'node-name': `${name}-raw`, file: `${name}-file`, ...unmap }
  const throttle = { driver: 'throttle', 'node-name': name, 'throttle-group': diskParts.throttle, ...unmap }
  return [
    ...blockdev({ ...file, cache: { direct: true, 'no-flush': false }, aio: 'io_uring' }),
    ...blockdev({ ...raw, 'detect-zeroes': 'unmap' }),
    ...blockdev({ ...throttle, file: `${name}-raw` }),
  ]
}

function blockdev(node: Readonly<Record<string, unknown>>): string[] {
  return ['-blockdev', JSON.stringify(node)]
}
