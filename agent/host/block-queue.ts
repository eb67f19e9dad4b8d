import { existsSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { listDirectory, readKernelFile } from './proc.js'

/** A whole disk, and how it orders the requests of those who use it. */
export interface Disk {
  /** In sysfs. */
  readonly path: string
  /** `major:minor` */
  readonly numbers: string
  /** Undefined for what has no queue. */
  readonly scheduler?: string
  /** Of a loop device that is attached. */
  readonly backingFile?: string
}

/** The disk of a device, or those below one that is put together of others (LVM, LUKS, RAID). */
export function listDisks(numbers: string, devices = '/sys/dev/block'): Disk[] {
  const path = `${devices}/${numbers}`
  return existsSync(path) ? listBelow(realpathSync(path)).map(readDisk) : []
}

function listBelow(path: string): string[] {
  const whole = existsSync(`${path}/partition`) ? dirname(path) : path
  const below = listDirectory(`${whole}/slaves`).map((name) => realpathSync(`${whole}/slaves/${name}`))
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

/** Of `none [mq-deadline] kyber bfq` the one in use. */
export function parseScheduler(text: string): string | undefined {
  return /\[(.+)\]/.exec(text)?.[1] ?? text.trim().split(/\s+/).find(Boolean)
}

/**
 * The kernel loads the scheduler's module for it, which is not among those it names before.
 * @returns whether the disk has it now
 */
export function setScheduler({ path }: Pick<Disk, 'path'>, scheduler: string): boolean {
  try {
    writeFileSync(`${path}/queue/scheduler`, scheduler)
  } catch {
    // Not there, or not to be written in a container: what can be read decides.
  }
  return readDisk(path).scheduler === scheduler
}
