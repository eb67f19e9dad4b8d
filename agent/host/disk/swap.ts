import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { unescapeOctal } from './mount.js'
import { CommandError, run } from '../process/process.js'

/** A swap area that the kernel uses. */
export interface SwapArea {
  readonly path: string
  readonly sizeBytes: number
  readonly usedBytes: number
}

/** Swapped pages return one by one, from a slow disk at some MB a second. */
const patienceMs = 60 * 60_000
const allocateMs = 30 * 60_000

/**
 * Parses the text of /proc/swaps. A file that was deleted while in use appears as `NAME (deleted)`.
 * Source: proc_swaps(5); sizes are KiB, without the header's page; blanks in names are octal escapes
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
 * Allocates a file's blocks, all of them or none.
 * @throws {CommandError} "No space left on device"
 */
export async function allocate(path: string, bytes: number, signal: AbortSignal): Promise<void> {
  const options = { timeoutMs: allocateMs, signal }
  try {
    await run('fallocate', ['--length', String(bytes), '--', path], options)
  } catch (error) {
    const isUnable = error instanceof CommandError && /not supported/i.test(error.stderr)
    if (!isUnable) throw error
    // Writes block by block if the file system does not support the call.
    await run('fallocate', ['--posix', '--length', String(bytes), '--', path], options)
  }
}

/** Makes later writes happen in place and uncompressed (btrfs, chattr(1)). Only works on an empty file. */
export async function forbidCopyOnWrite(path: string): Promise<void> {
  await run('chattr', ['+C', '--', path])
}

/** @param label at most 16 characters */
export async function formatSwap(path: string, label: string): Promise<void> {
  await run('mkswap', ['--quiet', '--label', label, '--', path])
}

/** linux/swap.h, union swap_header: after the boot block, three numbers and the uuid. */
const labelAt = { position: 1052, length: 16 }

/** The label of a swap file; empty: it has none, or is not a swap file. @throws if the file cannot be read */
export async function readSwapLabel(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { bytesRead, buffer } = await file.read({ ...labelAt, buffer: Buffer.alloc(labelAt.length) })
    return buffer.subarray(0, bytesRead).toString('latin1').replace(/\0+$/, '')
  } finally {
    await file.close()
  }
}

/** @throws {CommandError} "Invalid argument" if the file system does not support swap files */
export async function swapOn(path: string): Promise<void> {
  await run('swapon', ['--', path])
}

/**
 * Returns once the whole content has been read back. If killed before, the file stays in use unchanged (swapoff(2)).
 */
export async function swapOff(path: string, signal?: AbortSignal): Promise<void> {
  await run('swapoff', ['--', path], { timeoutMs: patienceMs, ...(signal && { signal }) })
}
