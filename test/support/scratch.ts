import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import type { StorageConfig } from '../../agent/storage/pool.js'
import { sh } from './sh.js'

/**
 * An empty directory for a test. What an earlier run left mounted or attached below it is taken down first;
 * call `wipe` again in `after`.
 * @param name of its own for every test file, prefixed btest-
 */
export function scratchDirectory(name: string): { path: string; wipe: () => void } {
  const path = `/var/tmp/${name}`
  const wipe = (): void => {
    clear(containersBelow, path, ({ lxcPath, name }) => sh('lxc-stop', '-k', '-P', lxcPath, '-n', name))
    clear(swapsBelow, path, (file) => sh('swapoff', '--', file))
    clear(mountsBelow, path, (target) => sh('umount', '--', target))
    clear(loopsBelow, path, (device) => sh('losetup', '--detach', device))
    rmSync(path, { recursive: true, force: true })
  }
  wipe()
  mkdirSync(path, { recursive: true, mode: 0o755 })
  return { path, wipe }
}

/** What guests that just ended still hold goes by itself in a moment, and some of what is there, too. */
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

/** A loop-backed pool in a scratch directory. */
export function testStorage(directory: string, sizeGb = 4): StorageConfig {
  return {
    pool: `${directory}/pool`,
    device: '',
    loop_file: `${directory}/pool.img`,
    loop_size_gb: sizeGb,
  }
}

/** Later mounts first. */
export function mountsBelow(directory: string): string[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  const targets = lines.map((line) => line.split(' ')[4] ?? '')
  return targets.filter((target) => target.startsWith(`${directory}/`)).reverse()
}

/** Swap files that the kernel uses. */
export function swapsBelow(directory: string): string[] {
  const lines = readFileSync('/proc/swaps', 'utf8').split('\n').slice(1)
  return lines.map((line) => line.split(/\s/)[0] ?? '').filter((file) => file.startsWith(`${directory}/`))
}

export function loopsBelow(directory: string): string[] {
  const text = execFileSync('losetup', ['--list', '--noheadings', '--raw', '--output', 'NAME,BACK-FILE'])
  const rows = text.toString().trim().split('\n')
  return rows.filter((row) => row.includes(` ${directory}/`)).map((row) => row.split(' ')[0] ?? '')
}

/** Found by the titles that lxc gives its monitors: `[lxc monitor] path name`. */
function containersBelow(directory: string): { lxcPath: string; name: string }[] {
  return readdirSync('/proc').flatMap((pid) => {
    const title = /^\d+$/.test(pid) ? readTitle(pid) : ''
    const [, lxcPath = '', name = ''] = /^\[lxc monitor\] (\S+) (\S+)/.exec(title) ?? []
    return lxcPath.startsWith(`${directory}/`) ? [{ lxcPath, name }] : []
  })
}

function readTitle(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return '' // ended meanwhile
  }
}
