import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { CommandError, run } from '../process/process.js'

/** Loop devices backed by `file`, found by its inode, including those that other programs created. */
export async function findLoops(file: string): Promise<string[]> {
  const { stdout } = await run('losetup', ['--noheadings', '--output', 'NAME', '--associated', file])
  return stdout.split('\n').filter((line) => line.startsWith('/dev/loop'))
}

/** File behind a loop device; undefined for other devices. */
export async function readBackingFile(device: string): Promise<string | undefined> {
  try {
    return (await readFile(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8')).trimEnd()
  } catch {
    return undefined // no loop device, or detached meanwhile
  }
}

/** Avoids caching guests' data a second time, in the page cache of the backing filesystem. */
export async function useDirectIo(device: string): Promise<boolean> {
  try {
    await run('losetup', ['--direct-io=on', device])
    return true
  } catch (error) {
    if (error instanceof CommandError) return false // not supported by the backing filesystem (tmpfs), only slower
    throw error
  }
}

/** Detaches a loop device. Does nothing if it is already detached: the kernel may have done so at the unmount. */
export async function detachLoop(device: string): Promise<void> {
  if ((await readBackingFile(device)) === undefined) return
  try {
    await run('losetup', ['--detach', device])
  } catch (error) {
    if ((await readBackingFile(device)) !== undefined) throw error
  }
}
