import { existsSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { isGone, listDirectory, readKernelFile } from '../process/proc.js'

export interface Disk {
  readonly path: string
  /** Device number as `major:minor`. */
  readonly numbers: string
  /** Name of the I/O scheduler. Undefined for a device without a queue. */
  readonly scheduler?: string
  /** File behind an attached loop device. */
  readonly backingFile?: string
}

/** Lists the disk of a device, or the disks below a combined device (LVM, LUKS, RAID). */
export function listDisks(numbers: string, devices = '/sys/dev/block'): Disk[] {
  const path = findPath(`${devices}/${numbers}`)
  return path === undefined ? [] : listBelow(path).map(readDisk)
}

/** Resolves a link in sysfs. Returns undefined if the device was removed. */
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

/** Returns the active scheduler: `mq-deadline` for the text `none [mq-deadline] kyber bfq`. */
export function parseScheduler(text: string): string | undefined {
  return /\[(.+)\]/.exec(text)?.[1] ?? text.trim().split(/\s+/).find(Boolean)
}

/**
 * Sets the scheduler. The kernel loads the scheduler's module if necessary, even if sysfs does not list the scheduler
 * yet.
 * @returns true if the disk now has the scheduler
 */
export function setScheduler({ path }: Pick<Disk, 'path'>, scheduler: string): boolean {
  try {
    writeFileSync(`${path}/queue/scheduler`, scheduler)
  } catch {
    // Fails if the kernel lacks the scheduler or sysfs is read-only. The next line checks which scheduler is active.
  }
  return readDisk(path).scheduler === scheduler
}
