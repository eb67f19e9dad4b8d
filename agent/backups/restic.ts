import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { runBesideTree } from '../host/guest/beside-tree.js'
import { runIntoFile } from '../host/disk/file-layout.js'
import { CommandError, hostEnvironment, run, type RunOptions, type RunResult } from '../host/process/process.js'
import type { WorkContext } from './contract.js'
import { Patience } from './patience.js'
import { isAbsent, planFailure } from './plan-failure.js'
import { planRepository, sshLog } from './plan-restic.js'

/** A command of restic, with its input and its output. */
export interface ResticCommand {
  readonly args: readonly string[]
  /** Path of a tree that restic can access as `treeName` in its working directory. */
  readonly tree?: string
  readonly okCodes?: readonly number[]
  readonly timeoutMs?: number
  /** Called with each line of output. @returns true if the line shows that data was transferred */
  readonly onStdoutLine?: (line: string) => boolean
  readonly stdin?: Buffer
  /** New file (`path` in `tree`) to which the output is written. */
  readonly into?: { readonly tree: string; readonly path: string; readonly sizeBytes: number }
  /** Maximum bytes of binary output. Undefined: the output is text. */
  readonly binaryBytes?: number
}

export interface ResticOptions {
  /** Directory in which each command gets a working directory. Working directories contain keys. */
  readonly directory: string
  /** Time in ms for which a target can fail before the agent ends the run. */
  readonly patienceMs: number
  /** Memory limit of a run in bytes, because a malicious target can send data without end. */
  readonly memoryBytes: number
  readonly log: Logger
}

/** Timeout in ms of commands that transfer little data. */
const askTimeoutMs = 180_000

/** Prefix for low priority (nice(1)). If memory runs out, the kernel kills the command before guests (choom(1)). */
const modestly = ['choom', '-n', '1000', '--', 'nice', '-n', '10']

interface At {
  readonly target: BackupTarget
  /** Name of the repository, which is a guest's uuid. */
  readonly name: string
  readonly watch: WorkContext
}

/** Runs restic with one repository, in a separate working directory that is deleted afterwards. */
export class Restic {
  private constructor(
    private readonly options: ResticOptions,
    private readonly at: At,
    private readonly place: string,
  ) {}

  static async with<T>(options: ResticOptions, at: At, work: (restic: Restic) => Promise<T>): Promise<T> {
    await mkdir(options.directory, { recursive: true, mode: 0o700 })
    const place = await mkdtemp(join(options.directory, 'run-'))
    try {
      const { files } = planRepository(at.target, at.name, place)
      for (const [name, content] of Object.entries(files)) await writeFile(join(place, name), content, { mode: 0o600 })
      return await work(new Restic(options, at, place))
    } finally {
      await rm(place, { recursive: true, force: true })
    }
  }

  /** @throws {BerthError} the reason why the target failed (`plan-failure.ts`), or the reason of the aborted signal */
  async run(command: ResticCommand): Promise<RunResult> {
    const { signal } = this.at.watch
    signal.throwIfAborted()
    const given = new AbortController()
    const patience = new Patience(this.options.patienceMs)
    let complaint = ''
    const settings: RunOptions = {
      ...this.#settings(command),
      signal: AbortSignal.any([signal, given.signal]),
      onStdoutLine: (line) => {
        if (command.onStdoutLine?.(line)) patience.reset()
      },
      onStderrLine: (line) => {
        if (!patience.isOver(line)) return
        complaint ||= line
        given.abort()
      },
    }
    try {
      return await this.#launch(command, settings)
    } catch (error) {
      signal.throwIfAborted()
      throw await this.#failureOf(error, complaint)
    }
  }

  #launch({ args, tree, into }: ResticCommand, settings: RunOptions): Promise<RunResult> {
    const repository = planRepository(this.at.target, this.at.name, this.place)
    const all = ['restic', ...repository.args, '--cache-dir', join(this.place, 'cache'), ...args]
    const bounded = ['prlimit', `--data=${this.options.memoryBytes}`, ...modestly, ...all] as const
    if (tree !== undefined) return runBesideTree({ place: this.place, tree }, bounded, settings)
    if (into) return runIntoFile(into, bounded, settings)
    const [program, ...rest] = bounded
    return run(program, rest, settings)
  }

  /** Returns the path of a file in the working directory. */
  pathOf(name: string): string {
    return join(this.place, name)
  }

  #settings({ okCodes, timeoutMs = askTimeoutMs, stdin, binaryBytes }: ResticCommand): RunOptions {
    const { env } = planRepository(this.at.target, this.at.name, this.place)
    return {
      timeoutMs,
      maxOutputBytes: binaryBytes ?? 16 * 1024 * 1024,
      ...(binaryBytes !== undefined && { encoding: 'latin1' }),
      env: {
        ...hostEnvironment,
        ...env,
        HOME: this.place,
        TMPDIR: this.place,
        RESTIC_PROGRESS_FPS: '2',
        GOMAXPROCS: '2',
      },
      ...(okCodes && { okCodes }),
      ...(stdin && { stdin }),
    }
  }

  /** Returns the error for the user. The output of restic names hosts and files, so it is only logged. */
  async #failureOf(error: unknown, complaint: string): Promise<unknown> {
    if (!(error instanceof CommandError)) return error
    const ssh = await readFile(join(this.place, sshLog), 'utf8').catch(() => '') // exists only if ssh was used
    const { target, name: repository } = this.at
    const isSilent = error.code === null && complaint === ''
    const said = isSilent ? 'does not answer' : `${ssh}\n${complaint || error.stderr}`
    const failed = planFailure(said, error.stderr)
    const level = isAbsent(failed) ? 'debug' : 'warn' // a repository does not exist before a guest's first backup
    this.options.log[level]({ err: error, ssh, target: target.id, repository }, 'restic failed')
    return failed
  }
}
