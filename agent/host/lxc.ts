import { findLiveProcess, readChildren, readKernelFile, killExactly } from './proc.js'
import { hostEnvironment, run, start } from './process.js'

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

/**
 * A guest's first process has the umask of the agent, which keeps secrets: with it an init that sets none of
 * its own (BusyBox's, OpenRC's) starts services whose files nobody else reads. Node's own umask is the whole process's.
 */
const startWithOwnUmask = 'umask 022 && exec "$0" "$@"'

const target = ({ lxcPath, name }: LxcContainer): string[] => ['-P', lxcPath, '-n', name]

/**
 * Returns once the container's first process runs; the monitor is a daemon of its own.
 * @throws {CommandError} lxc's reasons are in `logFile`
 */
export async function lxcStart(container: LxcContainer, logFile: string): Promise<void> {
  const lxcStartArgs = [...target(container), '-o', logFile, '-l', 'ERROR']
  await run('/bin/sh', ['-c', startWithOwnUmask, lxcStartProgram, ...lxcStartArgs], {
    survives: true,
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

export interface AttachOptions {
  /** May take a while to make: lxc-attach does as well. Its failure ends the call. */
  readonly stdin: Promise<string>
  readonly timeoutMs: number
  readonly maxOutputBytes: number
  readonly signal?: AbortSignal
}

export interface AttachResult {
  /** Exit code, or `undefined` when it was killed. */
  readonly code: number | undefined
  /** Why it was killed. */
  readonly reason: string
  /** Standard error, or as much as was taken. From the guest: not to be trusted. */
  readonly stderr: string
}

/**
 * Runs a fixed script by the guest's /bin/sh in all of its namespaces, its group and its seccomp filter.
 * The guest may have replaced everything there: whatever it does, this ends in time, keeps bounded output
 * and leaves no process of the call behind.
 */
export function lxcAttach(
  container: LxcContainer,
  script: string,
  options: AttachOptions,
): Promise<AttachResult> {
  const child = start('lxc-attach', [...target(container), '--clear-env', '--', '/bin/sh', '-c', script])
  return new Promise((resolve, reject) => {
    let reason = ''
    let output = 0
    let stderr = ''
    const kill = (why: string): void => {
      reason ||= why
      killTree(child.pid)
      child.stdout.destroy()
      child.stderr.destroy()
    }
    const take = (chunk: Buffer): void => {
      output += chunk.length
      if (output > options.maxOutputBytes) kill('too much output')
    }
    const abort = (): void => kill('aborted')
    const timer = setTimeout(() => kill(`no end after ${options.timeoutMs} ms`), options.timeoutMs)
    options.signal?.addEventListener('abort', abort, { once: true })
    if (options.signal?.aborted) abort()
    child.stdout.on('data', take)
    child.stderr.on('data', (chunk: Buffer) => {
      if (stderr.length < 4096) stderr += chunk.toString('latin1')
      take(chunk)
    })
    child.stdin.on('error', () => undefined) // EPIPE: it did not read; its exit code says why
    options.stdin.then(
      (text) => child.stdin.end(text),
      (cause: Error) => (reject(cause), kill('no input')),
    )
    let code: number | null = null
    let grace: NodeJS.Timeout | undefined
    const finish = (): void => {
      clearTimeout(timer)
      clearTimeout(grace)
      options.signal?.removeEventListener('abort', abort)
      child.stdout.destroy()
      child.stderr.destroy()
      resolve({ code: reason === '' ? (code ?? undefined) : undefined, reason, stderr })
    }
    child.once('error', (cause) => (reject(cause), finish()))
    child.once('close', finish)
    child.once('exit', (exitCode) => {
      code = exitCode
      // A process the guest left behind may hold the pipes open for ever.
      grace = setTimeout(finish, 100)
    })
  })
}

/**
 * Kills lxc-attach and what it started: the attached process would outlive it. Descendants first, level by
 * level, as often as new ones appear; what the guest moved away from under them is its own.
 */
function killTree(root: number | undefined): void {
  if (root === undefined) return
  for (let round = 0; round < 10; round += 1) {
    const below = listDescendants(root)
    if (below.length === 0) break
    for (const pid of below) {
      const stat = findLiveProcess(pid)
      if (stat) killExactly(pid, stat.startTime)
    }
  }
  const stat = findLiveProcess(root)
  if (stat) killExactly(root, stat.startTime)
}

function listDescendants(pid: number): number[] {
  return readChildren(pid)
    .filter((child) => findLiveProcess(child) !== undefined)
    .flatMap((child) => [child, ...listDescendants(child)])
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
