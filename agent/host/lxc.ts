import { readKernelFile } from './proc.js'
import { hostEnvironment, run, start, type RunOptions, type RunResult } from './process.js'

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
 * @throws {CommandError} lxc's reasons are in `logFile`
 */
export async function lxcStart(container: LxcContainer, logFile: string): Promise<void> {
  await run(lxcStartProgram, [...target(container), '-o', logFile, '-l', 'ERROR'], {
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

/**
 * Runs a program of the container's own in its namespaces, groups and confinement, without a terminal.
 * @throws {CommandError} also where it cannot be attached to
 */
export function lxcAttach(
  container: LxcContainer,
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return run('lxc-attach', [...target(container), '--clear-env', '--', ...command], options)
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
