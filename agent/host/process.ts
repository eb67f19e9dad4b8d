import { spawn, type ChildProcessWithoutNullStreams, type SpawnOptions } from 'node:child_process'

/*
 * The only module of the agent that starts processes. Arguments are arrays; no shell. A child dies with the
 * agent (PR_SET_PDEATHSIG through setpriv(1)) so that a killed agent's successor never races a command of its
 * predecessor; only what must outlive the agent is started with `survives`.
 */

export interface RunOptions {
  stdin?: string | Buffer
  /** Default 60 s; then SIGKILL. */
  timeoutMs?: number
  signal?: AbortSignal
  /** Not killed with the agent: it hands over to a daemon of its own (lxc-start). */
  survives?: boolean
  /** Exit codes that are no failure; default [0]. */
  okCodes?: readonly number[]
  /** Complete environment; default a PATH and the C locale. */
  env?: Record<string, string>
  /** Called with each complete line of standard error, for progress. */
  onStderrLine?: (line: string) => void
  /** Output kept, each stream; default 1 MiB. More: the command is killed and fails. */
  maxOutputBytes?: number
}

export interface RunResult {
  code: number
  stdout: string
  stderr: string
}

export class CommandError extends Error {
  override readonly name = 'CommandError'
  constructor(
    readonly program: string,
    readonly code: number | null,
    readonly stderr: string,
    detail: string,
  ) {
    super(`${program}: ${detail}${stderr ? `: ${stderr.trim().slice(-500)}` : ''}`)
  }
}

export const hostEnvironment: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C.UTF-8',
}

/**
 * Runs a program to its end.
 * @throws {CommandError} on another exit code than `okCodes`, a signal, a timeout or too much output
 */
export async function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const child = start(program, args, options)
  const limit = options.maxOutputBytes ?? 1024 * 1024
  const stdout = collect(child, child.stdout, limit)
  const stderr = collect(child, child.stderr, limit, options.onStderrLine)
  child.stdin.on('error', () => undefined) // EPIPE: it exited without reading; its exit code says why
  child.stdin.end(options.stdin)
  const { code, reason } = await ended(child, options)
  const result = { code: code ?? -1, stdout: stdout(), stderr: stderr() }
  if (code !== null && (options.okCodes ?? [0]).includes(code)) return result
  throw new CommandError(program, code, result.stderr, reason)
}

/** A long-lived child with pipes, for the modules that feed nft, ip and tc line by line. */
export function start(
  program: string,
  args: readonly string[],
  options: Pick<RunOptions, 'survives' | 'env'> = {},
): ChildProcessWithoutNullStreams {
  const spawnOptions: SpawnOptions = {
    env: options.env ?? hostEnvironment,
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  }
  const [command, argv] = options.survives
    ? [program, [...args]]
    : ['setpriv', ['--pdeathsig', 'KILL', '--', program, ...args]]
  return spawn(command, argv, spawnOptions) as ChildProcessWithoutNullStreams
}

function collect(
  child: ChildProcessWithoutNullStreams,
  stream: NodeJS.ReadableStream,
  limit: number,
  onLine?: (line: string) => void,
): () => string {
  const chunks: Buffer[] = []
  let size = 0
  let partial = ''
  stream.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > limit && !onLine) return void child.kill('SIGKILL')
    if (onLine) {
      const lines = (partial + chunk.toString('utf8')).split('\n')
      partial = (lines.pop() ?? '').slice(-4096)
      lines.forEach(onLine)
      if (size > limit) return
    }
    chunks.push(chunk)
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

function ended(
  child: ChildProcessWithoutNullStreams,
  { timeoutMs = 60_000, signal }: RunOptions,
): Promise<{ code: number | null; reason: string }> {
  return new Promise((resolve, reject) => {
    let reason = ''
    const kill = (why: string): void => {
      reason = why
      child.kill('SIGKILL')
      // A grandchild may hold the pipes open: the result is decided by the child alone.
      child.stdout.destroy()
      child.stderr.destroy()
    }
    const timer = setTimeout(() => kill(`no end after ${timeoutMs} ms`), timeoutMs)
    const abort = (): void => kill('aborted')
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort, { once: true })
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
    child.once('error', (cause) => (done(), reject(cause)))
    child.once('close', (code, sig) => {
      done()
      resolve({
        code: reason ? null : code,
        reason: reason || (sig ? `killed by ${sig}` : `exit code ${code}`),
      })
    })
  })
}
