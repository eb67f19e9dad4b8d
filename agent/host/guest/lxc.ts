import { rmdirSync, rmSync } from 'node:fs'
import { perlProgram } from '../process/perl-program.js'
import type { GuestTerminal, TerminalDirectory } from './guest-terminal.js'
import { listDirectory, readKernelFile } from '../process/proc.js'
import type { TerminalCommand } from '../process/pty.js'
import { hostEnvironment, runPerl, type RunOptions, type RunResult } from '../process/process.js'

/** A container's name, and the directory that contains the container's directory. */
export interface LxcContainer {
  readonly lxcPath: string
  readonly name: string
}

export const lxcStartProgram = '/usr/bin/lxc-start'

/**
 * Environment of lxc-start, with a PATH that does not contain newuidmap(1). If lxc finds that program, it requires
 * ranges in /etc/subuid even for root, and starts two more processes (lxc_map_ids() in conf.c).
 */
const startEnvironment = { ...hostEnvironment, PATH: '/usr/sbin:/sbin' }

const target = ({ lxcPath, name }: LxcContainer): string[] => ['-P', lxcPath, '-n', name]

/**
 * Starts a container. Returns when its first process runs. lxc's monitor process stays as a daemon.
 * @param namespace result of `namespaceArguments`
 * @throws {CommandError} if it fails; lxc writes the reasons to `logFile`
 */
export async function lxcStart(
  { lxcPath, name }: LxcContainer,
  { logFile, namespace }: { logFile: string; namespace: readonly string[] },
): Promise<void> {
  await runPerl('start-guest', [lxcPath, name, logFile, ...namespace], {
    survives: true,
    // The guest's first process inherits the umask. An init system that sets no umask, such as BusyBox or OpenRC, would
    // start services with the agent's umask. Nobody else could then read their files.
    ownUmask: true,
    env: startEnvironment,
  })
}

/**
 * True if an lxc process holds the container's command socket. lxc creates the socket first. Therefore an orphaned
 * lxc-start is detected even before it has created any process.
 */
export function hasCommandSocket({ lxcPath, name }: LxcContainer): boolean {
  return (readKernelFile('/proc/net/unix') ?? '').includes(` @${lxcPath}/${name}/command\n`)
}

/** Returns the directory of lock files. lxc creates a lock file for each started container, and never removes it. */
const lockDirectoryOf = (lxcPath: string): string => `/run/lxc/lock${lxcPath}`

export function listLocks(lxcPath: string): string[] {
  return listDirectory(lockDirectoryOf(lxcPath)).flatMap((file) => /^\.(.+)$/.exec(file)?.[1] ?? [])
}

export function removeLock({ lxcPath, name }: LxcContainer): void {
  rmSync(`${lockDirectoryOf(lxcPath)}/.${name}`, { force: true })
}

/** Removes the lock files of all containers in this path, and the directories that are empty afterwards. */
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
    return false // the directory is not empty, or does not exist
  }
}

/**
 * Runs a program inside the container's namespaces, groups and confinement, without a terminal. The program also gets
 * the system call filter of the container. Without this filter, root in the container could take over the program to
 * avoid the filter.
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
 * Script that starts root's login shell in a container. It runs in the guest, so that only the guest itself reads its
 * /etc/passwd. The first argument can be `setsid -c`, which makes the shell lead a session.
 */
const shellScript = `cd "$HOME" 2>/dev/null || cd /
while IFS=: read -r name _ _ _ _ _ shell; do [ "$name" = root ] && break; done </etc/passwd
case $shell in *nologin | *false) shell= ;; esac
[ -x "$shell" ] || shell=/bin/sh
exec $1 "$shell" -l`

const rootVariables = ['HOME=/root', 'USER=root', 'LOGNAME=root', 'LANG=C.UTF-8']
const shellVariables = ['TERM=xterm-256color', ...rootVariables]

/** Returns the start of a command line of lxc-attach that sets only these variables. */
function attachWith(container: LxcContainer, variables: readonly string[]): string[] {
  const set = variables.flatMap((variable) => ['--set-var', variable])
  return ['/usr/bin/lxc-attach', ...target(container), '--clear-env', ...set, '--']
}

export interface ProgramOptions {
  readonly filter: Buffer
  /** Uid of the container's root on the host. */
  readonly root: number
  /** The program and its arguments, which no shell interprets. */
  readonly command: readonly string[]
}

/** Plans a program in the container's namespaces, groups and confinement, without a terminal. */
export function lxcProgram(container: LxcContainer, { filter, root, command }: ProgramOptions): TerminalCommand {
  const attach = attachWith(container, rootVariables)
  return {
    program: '/usr/bin/perl',
    args: [perlProgram('run-in-guest'), `${root}`, filter.toString('hex'), ...attach, ...command],
    env: { ...hostEnvironment },
  }
}

export interface ShellOptions {
  readonly filter: Buffer
  readonly terminals: TerminalDirectory | undefined
  /** Uid of the container's root on the host. */
  readonly root: number
}

/**
 * Plans a shell in the container's namespaces, groups and confinement, on a terminal of the container. If the container
 * has used up its terminals, lxc-attach relays input and output.
 */
export function lxcShell(container: LxcContainer, { filter, terminals, root }: ShellOptions): GuestTerminal {
  const shell = [...attachWith(container, shellVariables), '/bin/sh', '-c']
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

/** Plans a command that shows the container's /dev/console on the command's terminal. No key ends the command. */
export function lxcConsole(container: LxcContainer): TerminalCommand {
  return onTerminal('', ['/usr/bin/lxc-console', ...target(container), '-t', '0', '-e', '-1'])
}

/** @param filter seccomp program in hex; empty: no filter */
function onTerminal(filter: string, command: readonly string[]): TerminalCommand {
  return {
    program: '/usr/bin/perl',
    args: [perlProgram('own-terminal'), filter, ...command],
    env: { ...hostEnvironment, TERM: 'xterm-256color' },
  }
}

/** Returns the errors that lxc has logged, without time stamps and repetitions. */
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
