import { lstat, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { CommandError, run } from '../process/process.js'

const busyMs = 5000

export interface Mount {
  readonly source: string
  readonly target: string
  readonly fsType: string
  /** Options of the mount and of its filesystem (`rw`, `ro`, `noatime` …). */
  readonly options: readonly string[]
}

/**
 * Parses /proc/pid/mountinfo (proc_pid_mountinfo(5)). If several mounts have the same target, the last one is on top.
 * Optional fields end with a single `-`, and blanks in names are octal escapes.
 */
export function parseMountInfo(text: string): Mount[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [before = '', after = ''] = line.split(' - ', 2)
      const [, , , , target = '', options = ''] = before.split(' ')
      const [fsType = '', source = '', superOptions = ''] = after.split(' ')
      return {
        source: unescapeOctal(source),
        target: unescapeOctal(target),
        fsType,
        options: [...options.split(','), ...superOptions.split(',')],
      }
    })
}

/** Decodes octal escapes, which the kernel writes for blanks in file names. */
export function unescapeOctal(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
}

export async function readMounts(): Promise<Mount[]> {
  return parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))
}

/** Finds the topmost mount whose mount point is `target`. */
export async function findMount(target: string): Promise<Mount | undefined> {
  return (await readMounts()).findLast((mount) => mount.target === target)
}

/** Mounts a filesystem. With `-o loop`, the kernel detaches the loop device at the unmount (autoclear in mount(8)). */
export async function mount(
  source: string,
  target: string,
  options: { type: string; options: readonly string[] },
): Promise<void> {
  await run('mount', ['-t', options.type, '-o', options.options.join(','), '--', source, target])
}

/** Unmounts. Retries while guests or commands still use the mount. */
export async function unmount(target: string): Promise<void> {
  for (const endMs = performance.now() + busyMs; ; await delay(50)) {
    try {
      await run('umount', ['--', target])
      return
    } catch (error) {
      const isBusy = error instanceof CommandError && error.stderr.includes('busy')
      if (!isBusy || performance.now() > endMs) throw error
    }
  }
}

/** Returns the types of filesystems, partition tables and similar data that wipefs(8) finds on a device or file. */
export async function readSignatures(path: string): Promise<string[]> {
  const { stdout } = await run('wipefs', ['--noheadings', '--output', 'TYPE', '--', path])
  return [...new Set(stdout.split('\n').map((line) => line.trim()))].filter((type) => type !== '')
}

/** True if the path exists, even as a dangling link. */
export async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
