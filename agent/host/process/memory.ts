import { readFile } from 'node:fs/promises'

export interface Memory {
  readonly totalBytes: number
  /** Bytes of memory that processes can allocate without swap. */
  readonly availableBytes: number
}

/**
 * Parses /proc/meminfo (proc_meminfo(5)), in which "kB" means KiB.
 * @throws {Error} if a figure is missing
 */
export function parseMemory(text: string): Memory {
  return { totalBytes: readBytes(text, 'MemTotal'), availableBytes: readBytes(text, 'MemAvailable') }
}

export async function readMemory(): Promise<Memory> {
  return parseMemory(await readFile('/proc/meminfo', 'utf8'))
}

function readBytes(text: string, name: string): number {
  const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]
  if (kib === undefined) throw new Error(`/proc/meminfo has no ${name}`)
  return Number(kib) * 1024
}
