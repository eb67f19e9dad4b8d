import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { unescapeOctal } from './mount.js'
import { CommandError, run } from '../process/process.js'

export interface SwapArea {
  readonly path: string
  readonly sizeBytes: number
  readonly usedBytes: number
}

/** Timeout in ms of swapoff(8), which reads swapped pages one by one. A slow disk delivers a few MB per second. */
const patienceMs = 60 * 60_000
const allocateMs = 30 * 60_000

/**
 * Parses /proc/swaps (proc_swaps(5)). A file that was deleted while in use appears as `NAME (deleted)`. Sizes are in
 * KiB and do not include the header's page. Blanks in names are octal escapes.
 */
export function parseSwaps(text: string): SwapArea[] {
  return text
    .split('\n')
    .slice(1)
    .filter((line) => line !== '')
    .map((line) => {
      const [path = '', , size, used] = line.split(/\s+/)
      return { path: unescapeOctal(path), sizeBytes: Number(size) * 1024, usedBytes: Number(used) * 1024 }
    })
}

export async function readSwaps(): Promise<SwapArea[]> {
  return parseSwaps(await readFile('/proc/swaps', 'utf8'))
}

/**
 * Allocates all blocks of a file, or none of them.
 * @throws {CommandError} "No space left on device"
 */
export async function allocate(path: string, bytes: number, signal: AbortSignal): Promise<void> {
  const options = { timeoutMs: allocateMs, signal }
  try {
    await run('fallocate', ['--length', String(bytes), '--', path], options)
  } catch (error) {
    const isUnable = error instanceof CommandError && /not supported/i.test(error.stderr)
    if (!isUnable) throw error
    // The file system does not support the system call fallocate(2), so the program writes each block.
    await run('fallocate', ['--posix', '--length', String(bytes), '--', path], options)
  }
}

/** Turns off copy-on-write and compression of an empty file on btrfs (chattr(1)). */
export async function forbidCopyOnWrite(path: string): Promise<void> {
  await run('chattr', ['+C', '--', path])
}

/** Formats a swap file. @param label at most 16 characters */
export async function formatSwap(path: string, label: string): Promise<void> {
  await run('mkswap', ['--quiet', '--label', label, '--', path])
}

/** Position and length in bytes of the label in a swap file (union swap_header in linux/swap.h). */
const labelAt = { position: 1052, length: 16 }

/** Returns a file's swap label. Empty if the file has no label or is not a swap file. @throws if it cannot be read */
export async function readSwapLabel(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { bytesRead, buffer } = await file.read({ ...labelAt, buffer: Buffer.alloc(labelAt.length) })
    return buffer.subarray(0, bytesRead).toString('latin1').replace(/\0+$/, '')
  } finally {
    await file.close()
  }
}

/** Activates a swap file. @throws {CommandError} "Invalid argument" if the file system does not support swap files */
export async function swapOn(path: string): Promise<void> {
  await run('swapon', ['--', path])
}

/** Deactivates a swap file. Returns when its content is in memory. If swapoff is killed, the file stays in use. */
export async function swapOff(path: string, signal?: AbortSignal): Promise<void> {
  await run('swapoff', ['--', path], { timeoutMs: patienceMs, ...(signal && { signal }) })
}
