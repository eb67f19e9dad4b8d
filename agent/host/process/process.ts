import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { Launcher, type LaunchEnd, type LaunchOrder } from './launcher.js'
import { perlProgram } from './perl-program.js'

/*
 * This module and launcher.ts are the only ones that start processes. Arguments are arrays that no shell parses. A
 * child is killed with its agent (PR_SET_PDEATHSIG), so that it cannot disturb commands of the next agent. With
 * the option `survives`, a process continues when its agent ends.
 */

export interface RunOptions {
  stdin?: string | Buffer
  /** Timeout in ms after which the command gets SIGKILL. Default: 60 s. */
  timeoutMs?: number
  signal?: AbortSignal
  /** True if the command survives the end of the agent. For commands that start a daemon, such as lxc-start. */
  survives?: boolean
  /** Exit codes that are not failures. Default: [0]. */
  okCodes?: readonly number[]
  /** True if the command gets the umask of services (022). The agent's own umask is stricter, to protect secrets. */
  ownUmask?: boolean
  /** Complete environment of the command. Default: a PATH and the C locale. */
  env?: Record<string, string>
  /** Called with the pid when the command has started. */
  onStart?: (pid: number) => void
  /** Called with each complete line of standard error. If set, only the beginning of standard error is stored. */
  onStderrLine?: (line: string) => void
  onStdoutLine?: (line: string) => void
  /** Maximum output per stream in bytes. Default: 1 MiB. A command that writes more is killed, and the call fails. */
  maxOutputBytes?: number
  /** Encoding of the output. `latin1` keeps bytes unchanged. */
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
 * @throws {CommandError} if the exit code is not in `okCodes`, and after a signal, a timeout or too much output
 */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  return launch({ kind: 'program', program, args, ...settingsOf(options) }, options)
}

/**
 * Runs a Perl program in a separate process, for system calls that neither Node nor a tool can make. If the program
 * dies, the call fails. ps(1) does not show the arguments, unless the program passes them on to another program.
 * @param name as for `perlProgram`
 * @throws {CommandError} like `run`
 */
export function runPerl(name: string, args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  return launch({ kind: 'perl', program: perlProgram(name), args, ...settingsOf(options) }, options)
}

/**
 * Runs a Perl program inside the launcher, in a third of the time that a new process takes. The program must never
 * wait, because the launcher can do nothing else at this time. It gets no arguments and no standard input.
 * @param name as for `perlProgram`
 * @throws {CommandError} if the program dies
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
      onOutput: (stream, chunk) => output.take(stream, chunk) || stop('killed because of too much output'),
      onEnd: ended,
    })
    const { timeoutMs = 60_000 } = options
    const timer = setTimeout(() => stop(`killed because it did not end within ${timeoutMs} ms`), timeoutMs)
    const abort = (): void => stop('aborted')
    options.signal?.addEventListener('abort', abort, { once: true })
    if (options.signal?.aborted) abort()
  })
  const { stdout, stderr } = output
  if (code !== null && (options.okCodes ?? [0]).includes(code)) return { code, stdout, stderr }
  throw new CommandError(order.kind === 'program' ? order.program : 'perl', code, stderr, reason)
}

/** Collects a command's output up to a limit. */
class Output {
  readonly #chunks = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  readonly #sizes = { stdout: 0, stderr: 0 }
  readonly #partial = { stdout: '', stderr: '' }

  constructor(
    private readonly options: Pick<RunOptions, 'maxOutputBytes' | 'encoding' | 'onStderrLine' | 'onStdoutLine'>,
  ) {}

  /** @returns false if the command must fail, because no listener takes the output that exceeds the limit */
  take(stream: 'stdout' | 'stderr', chunk: Buffer): boolean {
    const { maxOutputBytes = 1024 * 1024, onStderrLine, onStdoutLine } = this.options
    this.#sizes[stream] += chunk.length
    const follow = stream === 'stderr' ? onStderrLine : onStdoutLine
    if (follow) this.#follow(stream, chunk, follow)
    if (this.#sizes[stream] > maxOutputBytes) return follow !== undefined
    this.#chunks[stream].push(Buffer.from(chunk)) // copied, because `chunk` is part of a larger buffer
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

/** A HOME that is not a directory, so that nft neither writes its commands to `.nft.history` nor reads them. */
const noHome = '/dev/null'

/** Starts a long-lived child with pipes, such as nft, ip and tc in batch mode. It is killed with the agent. */
export function start(program: string, args: readonly string[]): ChildProcessWithoutNullStreams {
  return spawn('setpriv', ['--pdeathsig', 'KILL', '--', program, ...args], {
    env: { ...hostEnvironment, HOME: noHome },
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}
