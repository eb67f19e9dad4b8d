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
 * Parses /proc/pid/mountinfo. If several entries have the same target, the last one is on top. Source:
 * proc_pid_mountinfo(5): optional fields end with a single `-`, blanks in names are octal escapes
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

/** Decodes octal escapes, by which the kernel writes blanks in file names. */
export function unescapeOctal(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
}

export async function readMounts(): Promise<Mount[]> {
  return parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))
}

/** The mount that is visible at exactly `target`. */
export async function findMount(target: string): Promise<Mount | undefined> {
  return (await readMounts()).findLast((mount) => mount.target === target)
}

/** Mounts; with `-o loop` on a file the kernel detaches the loop device at the unmount (mount(8), autoclear). */
export async function mount(
  source: string,
  target: string,
  options: { type: string; options: readonly string[] },
): Promise<void> {
  await run('mount', ['-t', options.type, '-o', options.options.join(','), '--', source, target])
}

/** Unmounts. Retries while the mount is busy, because ended guests and killed commands release it with a delay. */
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

/** Names of filesystems, partition tables etc. recognized on a device or file; `[]` if there are none. */
export async function readSignatures(path: string): Promise<string[]> {
  const { stdout } = await run('wipefs', ['--noheadings', '--output', 'TYPE', '--', path])
  return [...new Set(stdout.split('\n').map((line) => line.trim()))].filter((type) => type !== '')
}

/** True if the path exists; also true for a dangling link. */
export async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
