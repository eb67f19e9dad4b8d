import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { freemem } from 'node:os'
import { join } from 'node:path'
import type { StorageConfig } from '../../agent/storage/pool.js'
import { sh } from './sh.js'

/**
 * Creates an empty directory for a test. First it removes mounts and loop devices that an earlier run has left below
 * it. Call `wipe` in `after`.
 * @param name unique for every test file, begins with btest-
 */
export function scratchDirectory(name: string): { path: string; wipe: () => void } {
  const path = `/var/tmp/${name}`
  const wipe = (): void => {
    clear(containersBelow, path, stopContainer)
    clear(swapsBelow, path, (file) => sh('swapoff', '--', file))
    clear(mountsBelow, path, (target) => sh('umount', ...(isMemory(target) ? ['--lazy'] : []), '--', target))
    clear(loopsBelow, path, (device) => sh('losetup', '--detach', device))
    rmSync(path, { recursive: true, force: true })
  }
  wipe()
  mkdirSync(path, { recursive: true, mode: 0o755 })
  return { path, wipe }
}

const memoryGb = 8

/**
 * Creates a directory for tens of thousands of small files inside a scratch directory. The directory is in memory if
 * the host has enough, because the removal of the files from a disk takes up to half a minute.
 */
export function memoryDirectory(scratch: string): string {
  const path = join(scratch, 'memory')
  mkdirSync(path, { recursive: true })
  if (freemem() > 1.5 * memoryGb * 1024 ** 3)
    sh('mount', '-t', 'tmpfs', '-o', `size=${memoryGb}g,mode=755`, 'btest', path)
  return path
}

/** True for a directory in memory. It is unmounted lazily, as loop devices of a killed machine may still use it. */
const isMemory = (target: string): boolean => target.endsWith('/memory')

/** Removes everything that `find` returns. Repeats this after a failure, because something may be in use or gone. */
function clear<T>(find: (path: string) => T[], path: string, remove: (found: T) => unknown): void {
  for (const deadline = performance.now() + 10_000; ;) {
    try {
      for (const found of find(path)) remove(found)
      return
    } catch (error) {
      if (performance.now() > deadline) throw error
      execFileSync('sleep', ['0.05'])
    }
  }
}

/** Returns the configuration of a loop-backed pool in a scratch directory. */
export function testStorage(directory: string, sizeGb = 4): StorageConfig {
  return {
    pool: `${directory}/pool`,
    device: '',
    loop_file: `${directory}/pool.img`,
    loop_size_gb: sizeGb,
  }
}

/** Returns the mounts below a directory, the latest first. */
export function mountsBelow(directory: string): string[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  const targets = lines.map((line) => line.split(' ')[4] ?? '')
  return targets.filter((target) => target.startsWith(`${directory}/`)).reverse()
}

/** Returns the swap files below a directory that the kernel uses now. */
export function swapsBelow(directory: string): string[] {
  const lines = readFileSync('/proc/swaps', 'utf8').split('\n').slice(1)
  return lines.map((line) => line.split(/\s/)[0] ?? '').filter((file) => file.startsWith(`${directory}/`))
}

export function loopsBelow(directory: string): string[] {
  const text = execFileSync('losetup', ['--list', '--noheadings', '--raw', '--output', 'NAME,BACK-FILE'])
  const rows = text.toString().trim().split('\n')
  return rows.filter((row) => row.includes(` ${directory}/`)).map((row) => row.split(' ')[0] ?? '')
}

/** A running container. The title of its lxc monitor, `[lxc monitor] path name`, identifies it. */
interface FoundContainer {
  /** Process id of its monitor, which kills the container when it ends. */
  readonly pid: number
  readonly lxcPath: string
  readonly name: string
}

/** `lxc-stop` does not reach a container that was started in another network namespace. */
function stopContainer({ pid, lxcPath, name }: FoundContainer): void {
  try {
    sh('lxc-stop', '-k', '-P', lxcPath, '-n', name)
  } catch {
    process.kill(pid, 'SIGKILL')
  }
}

function containersBelow(directory: string): FoundContainer[] {
  return readdirSync('/proc').flatMap((pid) => {
    const title = /^\d+$/.test(pid) ? readTitle(pid) : ''
    const [, lxcPath = '', name = ''] = /^\[lxc monitor\] (\S+) (\S+)/.exec(title) ?? []
    return lxcPath.startsWith(`${directory}/`) ? [{ pid: Number(pid), lxcPath, name }] : []
  })
}

function readTitle(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return '' // the process has ended
  }
}
