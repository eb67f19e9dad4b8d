import { lstat, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { CommandError, run } from './process.js'

const busyMs = 5000

export interface Mount {
  readonly source: string
  readonly target: string
  readonly fsType: string
  /** Of the mount and of its filesystem (`rw`, `ro`, `noatime` …). */
  readonly options: readonly string[]
}

/**
 * The text of /proc/pid/mountinfo; later entries lie over earlier ones of the same target.
 * Source: proc_pid_mountinfo(5): optional fields end with a lone `-`, blanks in names are octal escapes
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

/** Octal escapes, as the kernel writes blanks in names of files. */
export function unescapeOctal(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))
}

export async function readMounts(): Promise<Mount[]> {
  return parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))
}

/** The mount that is visible at `target` itself. */
export async function findMount(target: string): Promise<Mount | undefined> {
  return (await readMounts()).findLast((mount) => mount.target === target)
}

/** `mount -o loop` of a file makes a loop device that the kernel detaches at the unmount (mount(8), autoclear). */
export async function mount(
  source: string,
  target: string,
  options: { type: string; options: readonly string[] },
): Promise<void> {
  await run('mount', ['-t', options.type, '-o', options.options.join(','), '--', source, target])
}

/** What ended guests and killed commands held of it goes some time after them: busy for that long is no failure. */
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

/** What filesystems, partition tables or others are recognised on a device or file; `[]`: nothing. */
export async function readSignatures(path: string): Promise<string[]> {
  const { stdout } = await run('wipefs', ['--noheadings', '--output', 'TYPE', '--', path])
  return [...new Set(stdout.split('\n').map((line) => line.trim()))].filter((type) => type !== '')
}

/** Also for a link that leads nowhere. */
export async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
