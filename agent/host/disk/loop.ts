import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { CommandError, run } from '../process/process.js'

/** Finds the loop devices of a file by its inode. Finds loop devices that other programs created, too. */
export async function findLoops(file: string): Promise<string[]> {
  const { stdout } = await run('losetup', ['--noheadings', '--output', 'NAME', '--associated', file])
  return stdout.split('\n').filter((line) => line.startsWith('/dev/loop'))
}

/** Returns the file behind a loop device; undefined for other devices. */
export async function readBackingFile(device: string): Promise<string | undefined> {
  try {
    return (await readFile(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8')).trimEnd()
  } catch {
    return undefined // the device is not a loop device, or was detached
  }
}

/** Turns on direct I/O, so that guests' data is not cached twice. @returns false if the filesystem lacks support */
export async function useDirectIo(device: string): Promise<boolean> {
  try {
    await run('losetup', ['--direct-io=on', device])
    return true
  } catch (error) {
    if (error instanceof CommandError) return false // the backing filesystem does not support direct I/O (tmpfs)
    throw error
  }
}

/** Detaches a loop device. Does nothing if the kernel has already detached it at the unmount. */
export async function detachLoop(device: string): Promise<void> {
  if ((await readBackingFile(device)) === undefined) return
  try {
    await run('losetup', ['--detach', device])
  } catch (error) {
    if ((await readBackingFile(device)) !== undefined) throw error
  }
}
