import { rmdirSync, rmSync } from 'node:fs'
import { perlProgram } from '../process/perl-program.js'
import type { GuestTerminal, TerminalDirectory } from './guest-terminal.js'
import { listDirectory, readKernelFile } from '../process/proc.js'
import type { TerminalCommand } from '../process/pty.js'
import { hostEnvironment, runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** A container's name and the parent of its directory. */
export interface LxcContainer {
  readonly lxcPath: string
  readonly name: string
}

export const lxcStartProgram = '/usr/bin/lxc-start'

/**
 * A PATH without newuidmap(1). If lxc finds it, it requires ranges in /etc/subuid even for root, and uses two processes
 * at every start (lxc_map_ids() in conf.c).
 */
const startEnvironment = { ...hostEnvironment, PATH: '/usr/sbin:/sbin' }

const target = ({ lxcPath, name }: LxcContainer): string[] => ['-P', lxcPath, '-n', name]

/**
 * Returns once the container's first process runs; its monitor is a daemon.
 * @param namespace arguments for its namespace: `namespaceArguments`
 * @throws {CommandError} lxc's reasons are in `logFile`
 */
export async function lxcStart(
  { lxcPath, name }: LxcContainer,
  { logFile, namespace }: { logFile: string; namespace: readonly string[] },
): Promise<void> {
  await runPerl('start-guest', [lxcPath, name, logFile, ...namespace], {
    survives: true,
    // The guest's first process inherits the umask. An init that does not set one (BusyBox's, OpenRC's) would start
    // services whose files nobody else can read.
    ownUmask: true,
    env: startEnvironment,
  })
}

/**
 * True if an lxc process holds the container's command socket. lxc creates it before anything else, so this also
 * detects an orphaned lxc-start that will create processes later.
 */
export function hasCommandSocket({ lxcPath, name }: LxcContainer): boolean {
  return (readKernelFile('/proc/net/unix') ?? '').includes(` @${lxcPath}/${name}/command\n`)
}

/** lxc creates a lock file for each container that it ever started, and removes none. */
const lockDirectoryOf = (lxcPath: string): string => `/run/lxc/lock${lxcPath}`

export function listLocks(lxcPath: string): string[] {
  return listDirectory(lockDirectoryOf(lxcPath)).flatMap((file) => /^\.(.+)$/.exec(file)?.[1] ?? [])
}

/** Removes the lock of a deleted container. */
export function removeLock({ lxcPath, name }: LxcContainer): void {
  rmSync(`${lockDirectoryOf(lxcPath)}/.${name}`, { force: true })
}

/** Removes all locks of containers in this path, and the directories that are empty then. */
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
    return false // filled meanwhile, or missing
  }
}

/**
 * Runs a program of the container in its namespaces, groups and confinement, without a terminal. The program also gets
 * the starter's filter, as root in the container can take over any process there.
 * @throws {CommandError} also if lxc cannot attach
 */
export function lxcAttach(
  container: LxcContainer,
  command: readonly string[],
  { filter, ...options }: RunOptions & { readonly filter: Buffer },
): Promise<RunResult> {
  const attach = ['/usr/bin/lxc-attach', ...target(container), '--clear-env', '--', ...command]
  return runPerl('run-confined', [filter.toString('hex'), ...attach], options)
}

/**
 * The login shell of root in a container; the first argument makes it lead a session. The text is the same for all
 * guests, and runs in the guest, so only the guest itself reads its /etc/passwd.
 */
const shellScript = `cd "$HOME" 2>/dev/null || cd /
while IFS=: read -r name _ _ _ _ _ shell; do [ "$name" = root ] && break; done </etc/passwd
case $shell in *nologin | *false) shell= ;; esac
[ -x "$shell" ] || shell=/bin/sh
exec $1 "$shell" -l`

const shellVariables = ['TERM=xterm-256color', 'HOME=/root', 'USER=root', 'LOGNAME=root', 'LANG=C.UTF-8']

export interface ShellOptions {
  readonly filter: Buffer
  readonly terminals: TerminalDirectory | undefined
  /** Uid of the container's root on the host. */
  readonly root: number
}

/**
 * A shell in the container, in its namespaces, groups and confinement, on a terminal of the container. If the container
 * has used up its terminals, lxc-attach relays input and output.
 */
export function lxcShell(container: LxcContainer, { filter, terminals, root }: ShellOptions): GuestTerminal {
  const variables = shellVariables.flatMap((variable) => ['--set-var', variable])
  const attach = ['/usr/bin/lxc-attach', ...target(container), '--clear-env', ...variables]
  const shell = [...attach, '--', '/bin/sh', '-c']
  const hex = filter.toString('hex')
  const script = `exec <&3 >&3 2>&3 3>&-\n${shellScript}`
  return {
    terminals,
    program: '/usr/bin/perl',
    args: [perlProgram('guest-terminal'), `${root}`, hex, ...shell, script],
    env: { ...hostEnvironment },
    otherwise: onTerminal(hex, [...shell, shellScript]),
  }
}

/** Command line for the container's /dev/console, on the terminal that runs it. No key ends it. */
export function lxcConsole(container: LxcContainer): TerminalCommand {
  return onTerminal('', ['/usr/bin/lxc-console', ...target(container), '-t', '0', '-e', '-1'])
}

/** @param filter in hex; empty: no filter */
function onTerminal(filter: string, command: readonly string[]): TerminalCommand {
  return {
    program: '/usr/bin/perl',
    args: [perlProgram('own-terminal'), filter, ...command],
    env: { ...hostEnvironment, TERM: 'xterm-256color' },
  }
}

/** The last lines that lxc logged, without time stamps and repeated causes. */
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
