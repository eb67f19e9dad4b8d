import { randomBytes } from 'node:crypto'
import { appendFileSync, closeSync, existsSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readInitsBelow } from '../support/host/inventory.js'

const mib = 2 ** 20
/** Size of the guest's data in MiB. The data is random, so that nothing can compress it. */
export const dataMib = 512
/** The guest writes this many bytes every 100 ms, which is 5 MB/s. */
export const writtenBytes = 500_000

export interface MoveDurations {
  readonly totalMs: number
  /** Time from the end of the guest's first process at the source until its first process at the target. */
  readonly downMs: number
}

/** Writes the guest's data. @param disk root directory of the guest */
export function fill(disk: string): void {
  const file = openSync(join(disk, 'root/data'), 'w')
  for (let at = 0; at < dataMib; at += 16) writeSync(file, randomBytes(16 * mib))
  closeSync(file)
}

/** Returns the path of the file that `writeOften` writes. */
export function logOf(disk: string): string {
  return join(disk, 'root/log')
}

/** Appends to a file of the guest, like a program in the guest, until its disk is gone. */
export async function writeOften(disk: string, signal: AbortSignal): Promise<void> {
  const path = logOf(disk)
  writeFileSync(path, '')
  for (; !signal.aborted && existsSync(path); await delay(100)) appendFileSync(path, randomBytes(writtenBytes))
}

/**
 * Measures how long a guest does not run during a move. Call this before the move.
 * @param source directory of the containers at the source, see `readInitsBelow`. Only this guest runs there
 * @param target directory of the containers at the target
 */
export async function watchDowntime(source: string, target: string): Promise<number> {
  const former = readInitsBelow(target).size
  const [init = 'none'] = readInitsBelow(source).values()
  while (existsSync(`/proc/${init.split(':')[0]}`)) await delay(10)
  const goneMs = performance.now()
  while (readInitsBelow(target).size <= former) await delay(10)
  return performance.now() - goneMs
}
