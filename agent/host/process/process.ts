import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { Launcher, type LaunchEnd, type LaunchOrder } from './launcher.js'
import { perlProgram } from './perl-program.js'

/*
 * Starts processes; with launcher.ts the only module of the agent that does. Arguments are arrays, without a shell. A
 * child dies with the agent (PR_SET_PDEATHSIG), so that a command of a killed agent never races one of its successor.
 * Only processes that must outlive the agent are started with `survives`.
 */

export interface RunOptions {
  stdin?: string | Buffer
  /** Timeout, default 60 s; the command then gets SIGKILL. */
  timeoutMs?: number
  signal?: AbortSignal
  /** True if it is not killed with the agent: for a command that leaves a daemon behind (lxc-start). */
  survives?: boolean
  /** Exit codes that are not failures; default [0]. */
  okCodes?: readonly number[]
  /** Uses the umask of services, 022, instead of the agent's, which protects secrets. */
  ownUmask?: boolean
  /** Complete environment; default a PATH and the C locale. */
  env?: Record<string, string>
  /** Called with the pid once the command has started. */
  onStart?: (pid: number) => void
  /** Called with each complete line of that output, for progress. Only the beginning of such an output is retained. */
  onStderrLine?: (line: string) => void
  onStdoutLine?: (line: string) => void
  /** Maximum output per stream in bytes; default 1 MiB. A command that writes more is killed and fails. */
  maxOutputBytes?: number
  /** Encoding of the output; `latin1` keeps bytes as they are. */
  encoding?: 'utf8' | 'latin1'
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
 * Runs a program until it ends.
 * @throws {CommandError} on an exit code not in `okCodes`, a signal, a timeout or too much output
 */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  return launch({ kind: 'program', program, args, ...settingsOf(options) }, options)
}

/**
 * Runs a Perl program in a separate process, for system calls that neither Node nor a tool can make. `die` fails the
 * command. The arguments do not appear in ps, unless the program passes them on to another one.
 * @param name as for `perlProgram`
 * @throws {CommandError} as `run`
 */
export function runPerl(name: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  return launch({ kind: 'perl', program: perlProgram(name), args, ...settingsOf(options) }, options)
}

/**
 * Runs a Perl program in the launcher's own process, which takes a third of the time. The program must never wait. It
 * has no arguments and no standard input, and may only print.
 * @param name as for `perlProgram`
 * @throws {CommandError} if it dies
 */
export function runBriefPerl(name: string): Promise<RunResult> {
  return launch({ kind: 'brief', program: perlProgram(name) }, {})
}

const launcher = new Launcher()

function settingsOf({
  stdin = '',
  env = hostEnvironment,
  survives = false,
  ownUmask = false,
}: RunOptions): Required<Pick<RunOptions, 'stdin' | 'env' | 'survives' | 'ownUmask'>> {
  return { stdin, env, survives, ownUmask }
}

async function launch(order: LaunchOrder, options: RunOptions): Promise<RunResult> {
  const output = new Output(options)
  const { code, reason } = await new Promise<{ code: number | null; reason: string }>((resolve) => {
    const ended = ({ code, signal }: LaunchEnd): void => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', abort)
      const how = signal ? `killed by signal ${signal}` : `exit code ${code}`
      resolve({ code: killed ? null : code, reason: killed || how })
    }
    let killed = ''
    const stop = (why: string): void => {
      killed ||= why
      kill()
    }
    const kill = launcher.launch(order, {
      onStart: (pid) => options.onStart?.(pid),
      onOutput: (stream, chunk) => output.take(stream, chunk) || stop('too much output'),
      onEnd: ended,
    })
    const { timeoutMs = 60_000 } = options
    const timer = setTimeout(() => stop(`no end after ${timeoutMs} ms`), timeoutMs)
    const abort = (): void => stop('aborted')
    options.signal?.addEventListener('abort', abort, { once: true })
    if (options.signal?.aborted) abort()
  })
  const { stdout, stderr } = output
  if (code !== null && (options.okCodes ?? [0]).includes(code)) return { code, stdout, stderr }
  throw new CommandError(order.kind === 'program' ? order.program : 'perl', code, stderr, reason)
}

/** A command's output, with a size limit. */
class Output {
  readonly #chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  readonly #sizes = { stdout: 0, stderr: 0 }
  readonly #partial = { stdout: '', stderr: '' }

  constructor(
    private readonly options: Pick<RunOptions, 'maxOutputBytes' | 'encoding' | 'onStderrLine' | 'onStdoutLine'>,
  ) {}

  /** @returns false if the limit was exceeded, which is a failure unless the output's lines are followed */
  take(stream: 'stdout' | 'stderr', chunk: Buffer): boolean {
    const { maxOutputBytes = 1024 * 1024, onStderrLine, onStdoutLine } = this.options
    this.#sizes[stream] += chunk.length
    const follow = stream === 'stderr' ? onStderrLine : onStdoutLine
    if (follow) this.#follow(stream, chunk, follow)
    if (this.#sizes[stream] > maxOutputBytes) return follow !== undefined
    this.#chunks[stream].push(Buffer.from(chunk)) // copies, since the chunk is part of a larger buffer
    return true
  }

  get stdout(): string {
    return Buffer.concat(this.#chunks.stdout).toString(this.options.encoding ?? 'utf8')
  }

  get stderr(): string {
    return Buffer.concat(this.#chunks.stderr).toString('utf8')
  }

  #follow(stream: 'stdout' | 'stderr', chunk: Buffer, onLine: (line: string) => void): void {
    const lines = (this.#partial[stream] + chunk.toString('utf8')).split('\n')
    this.#partial[stream] = (lines.pop() ?? '').slice(-4096)
    lines.forEach(onLine)
  }
}

/**
 * A HOME that does not exist. Otherwise nft would write its commands to `.nft.history` there and read it at each start.
 */
const noHome = '/dev/null'

/** Starts a long-lived child with pipes, for modules that feed nft, ip and tc line by line. It dies with the agent. */
export function start(program: string, args: readonly string[]): ChildProcessWithoutNullStreams {
  return spawn('setpriv', ['--pdeathsig', 'KILL', '--', program, ...args], {
    env: { ...hostEnvironment, HOME: noHome },
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}
