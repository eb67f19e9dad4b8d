import { existsSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isGone, listDirectory, readKernelFile } from '../process/proc.js'

/** A whole disk and its I/O scheduler. */
export interface Disk {
  /** Path in sysfs. */
  readonly path: string
  /** `major:minor` */
  readonly numbers: string
  /** Undefined for a device without a queue. */
  readonly scheduler?: string
  /** File behind an attached loop device. */
  readonly backingFile?: string
}

/** The disk of a device, or the disks below a combined device (LVM, LUKS, RAID). */
export function listDisks(numbers: string, devices = '/sys/dev/block'): Disk[] {
  const path = findPath(`${devices}/${numbers}`)
  return path === undefined ? [] : listBelow(path).map(readDisk)
}

/** Returns undefined if the device no longer exists, even if it was just listed. */
function findPath(link: string): string | undefined {
  try {
    return realpathSync(link)
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

function listBelow(path: string): string[] {
  const whole = existsSync(`${path}/partition`) ? dirname(path) : path
  const below = listDirectory(`${whole}/slaves`).flatMap((name) => findPath(`${whole}/slaves/${name}`) ?? [])
  return below.length === 0 ? [whole] : [...new Set(below.flatMap(listBelow))]
}

export function readDisk(path: string): Disk {
  const scheduler = parseScheduler(readKernelFile(`${path}/queue/scheduler`) ?? '')
  const backingFile = readKernelFile(`${path}/loop/backing_file`)?.trimEnd()
  return {
    path,
    numbers: readKernelFile(`${path}/dev`)?.trim() ?? '',
    ...(scheduler === undefined ? {} : { scheduler }),
    ...(backingFile ? { backingFile } : {}),
  }
}

/** The active scheduler: `mq-deadline` in `none [mq-deadline] kyber bfq`. */
export function parseScheduler(text: string): string | undefined {
  return /\[(.+)\]/.exec(text)?.[1] ?? text.trim().split(/\s+/).find(Boolean)
}

/**
 * Sets the scheduler. The kernel loads its module if needed, although it did not list the scheduler before.
 * @returns whether the disk has the scheduler now
 */
export function setScheduler({ path }: Pick<Disk, 'path'>, scheduler: string): boolean {
  try {
    writeFileSync(`${path}/queue/scheduler`, scheduler)
  } catch {
    // The scheduler may be missing, or sysfs may be read-only in a container. The value read below decides.
  }
  return readDisk(path).scheduler === scheduler
}
