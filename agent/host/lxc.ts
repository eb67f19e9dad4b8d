import { rmdirSync, rmSync } from 'node:fs'
import { confinement } from './seccomp.js'
import { listDirectory, readKernelFile } from './proc.js'
import { hostEnvironment, runPerl, start, type RunOptions, type RunResult } from './process.js'

/** Where lxc keeps a container: its directory's parent and its name. */
export interface LxcContainer {
  readonly lxcPath: string
  readonly name: string
}

export const lxcStartProgram = '/usr/bin/lxc-start'

/**
 * newuidmap(1) is hidden from lxc: where it finds it, it insists on ranges in /etc/subuid even for root,
 * and spends two processes on every start (lxc_map_ids() in conf.c).
 */
const startEnvironment = { ...hostEnvironment, PATH: '/usr/sbin:/sbin' }

const target = ({ lxcPath, name }: LxcContainer): string[] => ['-P', lxcPath, '-n', name]

/**
 * Returns once the container's first process runs; the monitor is a daemon of its own.
 * @param starter see guest-namespace.ts
 * @throws {CommandError} lxc's reasons are in `logFile`
 */
export async function lxcStart(
  { lxcPath, name }: LxcContainer,
  { logFile, starter }: { logFile: string; starter: string },
): Promise<void> {
  await runPerl(starter, [lxcPath, name, logFile], {
    survives: true,
    // The umask of the guest's first process: an init that sets none of its own (BusyBox's, OpenRC's) would start
    // services whose files nobody else reads.
    ownUmask: true,
    env: startEnvironment,
  })
}

/**
 * Is there an lxc process that holds the container's command socket? It takes it before it makes anything
 * else, so this also tells of one that an orphaned lxc-start is only about to start.
 */
export function hasCommandSocket({ lxcPath, name }: LxcContainer): boolean {
  return (readKernelFile('/proc/net/unix') ?? '').includes(` @${lxcPath}/${name}/command\n`)
}

/** lxc makes a file for each container that it ever started, and removes none. */
const lockDirectoryOf = (lxcPath: string): string => `/run/lxc/lock${lxcPath}`

export function listLocks(lxcPath: string): string[] {
  return listDirectory(lockDirectoryOf(lxcPath)).flatMap((file) => /^\.(.+)$/.exec(file)?.[1] ?? [])
}

/** Of a container that is gone. */
export function removeLock({ lxcPath, name }: LxcContainer): void {
  rmSync(`${lockDirectoryOf(lxcPath)}/.${name}`, { force: true })
}

/** All locks of containers that are kept there, and the directories of no others. */
export function removeLocks(lxcPath: string): void {
  rmSync(lockDirectoryOf(lxcPath), { recursive: true, force: true })
  const parts = lxcPath.split('/').filter(Boolean)
  const parents = parts.map((_, at) => lockDirectoryOf(`/${parts.slice(0, at).join('/')}`))
  for (const parent of parents.reverse()) if (!removeEmpty(parent)) return
}

function removeEmpty(directory: string): boolean {
  try {
    rmdirSync(directory)
    return true
  } catch {
    return false // filled meanwhile, or not there
  }
}

/**
 * Runs a program of the container's own in its namespaces, groups and confinement, without a terminal. The filter is
 * that of its starter: root in there can take over whatever runs there.
 * @throws {CommandError} also where it cannot be attached to
 */
export function lxcAttach(
  container: LxcContainer,
  command: readonly string[],
  { filter, ...options }: RunOptions & { readonly filter: Buffer },
): Promise<RunResult> {
  const code = `use strict; use POSIX (); ${confinement(filter)} confine(); exec '/usr/bin/lxc-attach', @ARGV; die "$!\\n"`
  return runPerl(code, [...target(container), '--clear-env', '--', ...command], options)
}

/** The container's console on pipes: no terminal, so no window size; its own is 80 by 24. */
export function lxcConsole(container: LxcContainer): ReturnType<typeof start> {
  return start('lxc-console', [...target(container), '-t', '0', '-e', '-1'])
}

/** The last lines lxc logged, without time stamps and repeated causes. */
export function parseLxcLog(text: string): string {
  const lines = text.split('\n').flatMap((line) => {
    const match = /^\S+ \S+ \S+ ERROR +(\S+) - [^ ]+:(\w+):\d+ - (.*)$/.exec(line)
    return match ? [match[3] ?? ''] : []
  })
  return [...new Set(lines)].slice(0, 4).join('; ').slice(0, 600)
}

export function readLxcLog(path: string): string {
  return parseLxcLog((readKernelFile(path) ?? '').slice(0, 65_536))
}
