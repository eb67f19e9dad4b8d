import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, readFile, readlink, realpath } from 'node:fs/promises'
import { connect } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { BerthError, describeError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import type { GatewayConfig } from '../config.js'
import { AofRepair } from './aof-repair.js'
import { planRedisConfig, redisPaths, type RedisPaths } from './redis-config.js'

/*
 * The gateway's private redis-server. It runs in its own session and continues to run when the gateway ends. The next
 * gateway process uses the same server. The server runs under flock(1) with a lock on a file in its directory. Two
 * servers can therefore never write the same append-only file.
 */

export interface RedisProcessOptions {
  program: string
  stateDir: string
  runDir: string
  log: Logger
  /** Additional lines of the configuration, for tests. */
  extraConfig?: readonly string[]
}

const lockTakenCode = 75
const lockArgs = ['--nonblock', '--no-fork', '--conflict-exit-code', String(lockTakenCode)]
const startTimeoutMs = 60_000
const stopTimeoutMs = 10_000
const pollMs = 100
const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8' }
const backoffMs = { first: 100, max: 5000, healthyAfter: 30_000 }

export function redisProcessOf(config: GatewayConfig, log: Logger): RedisProcess {
  const { state_dir: stateDir, run_dir: runDir, redis } = config
  return new RedisProcess({ program: redis.program, stateDir, runDir, log })
}

export class RedisProcess {
  readonly #paths: RedisPaths
  readonly #config: string
  readonly #stopping = new AbortController()
  readonly #repair: AofRepair
  #guard: Promise<void> | undefined
  #child: ChildProcess | undefined
  #problem = ''
  #lastWarning = ''

  /** @throws {RangeError} if `run_dir` in the configuration makes the path of the server's socket too long */
  constructor(private readonly options: RedisProcessOptions) {
    this.#paths = redisPaths(options.stateDir, options.runDir)
    this.#config = planRedisConfig(this.#paths, options.extraConfig)
    const { directory, lock } = this.#paths
    const checker = join(dirname(options.program), 'redis-check-aof')
    const checkAof = (args: readonly string[], input: string) => runLocked(lock, [checker, ...args], input)
    this.#repair = new AofRepair({ directory, log: options.log, checkAof })
  }

  /** Reason why the last attempt to run a server failed. "": a server is ready. */
  get problem(): string {
    return this.#problem
  }

  get url(): string {
    return `unix://${encodeURI(this.#paths.socket)}`
  }

  /** Finds the pid of the server that uses this directory, even if another gateway has started it. */
  async findPid(): Promise<number | undefined> {
    const pid = Number(await readFile(this.#paths.pidFile, 'utf8').catch(() => ''))
    if (!Number.isInteger(pid) || pid < 2) return undefined
    return (await this.#isServer(pid)) ? pid : undefined
  }

  /**
   * Starts a server or takes over a running one, and restarts it whenever it ends, until `stop`. Resolves when its
   * socket accepts connections. All failures can be temporary, for example a full disk.
   * @throws {BerthError} `store_unavailable` if no server accepts connections within 60 s; attempts continue
   */
  async start(): Promise<void> {
    await this.#prepare().catch((cause: unknown) => this.#note(cause))
    this.#guard ??= this.#keepRunning()
    const deadline = performance.now() + startTimeoutMs
    while (!(await this.#accepts())) {
      if (performance.now() > deadline || this.#stopping.signal.aborted)
        throw new BerthError('unavailable', 'store_unavailable', `redis-server could not be started: ${this.#problem}`)
      await delay(20)
    }
    this.#problem = ''
  }

  async #prepare(): Promise<void> {
    for (const directory of [this.#paths.directory, this.options.runDir])
      await mkdir(directory, { recursive: true, mode: 0o700 })
    await this.#retireOutdated()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    const guardEnded = Promise.resolve(this.#guard).then(() => true)
    // The end of a server frees the lock, so that another waiting server can start. The loop ends that server too.
    do await this.#end(await this.findPid())
    while (!(await Promise.race([guardEnded, delay(pollMs, false)])))
  }

  /** Ends a server that runs with an outdated configuration. No data is lost, because all data is on disk. */
  async #retireOutdated(): Promise<void> {
    const pid = await this.findPid()
    if (pid !== undefined) {
      const running = await readFile(this.#paths.config, 'utf8').catch(() => '')
      if (running === this.#config && (await this.#accepts())) return
      this.options.log.info(
        { redisPid: pid },
        'a redis-server runs with another configuration than this gateway’s: stopping it',
      )
      await this.#end(pid)
    }
    // An unchanged file is not written again, because the write would fail on a full disk.
    if ((await readFile(this.#paths.config, 'utf8').catch(() => '')) !== this.#config)
      await writeFileAtomic(this.#paths.config, this.#config)
  }

  async #keepRunning(): Promise<void> {
    for (let failures = 0; !this.#stopping.signal.aborted;) {
      const begun = performance.now()
      const why = await this.#attempt(failures > 0).catch((cause: unknown) => this.#note(cause))
      if (this.#stopping.signal.aborted) return
      this.#problem = why
      failures = performance.now() - begun > backoffMs.healthyAfter ? 0 : failures + 1
      const waitMs = Math.min(backoffMs.max, backoffMs.first * 2 ** failures)
      this.options.log.error({ why, waitMs }, 'redis-server is not running; starting it again')
      await delay(waitMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined)
    }
  }

  /** @param repair true if the previous server ended early and files can be torn @returns why the new server ended */
  async #attempt(repair: boolean): Promise<string> {
    await this.#prepare()
    // The files may be repaired only while nobody holds the lock, because a server that holds the lock uses them.
    if ((await runLocked(this.#paths.lock, ['true'], '')).code === 0) {
      await this.#repair.ensureManifest()
      if (repair) await this.#repair.repair()
    }
    this.#lastWarning = ''
    const why = await this.#runOnce()
    return ['redis-server ended', why, this.#lastWarning].filter((part) => part !== '').join(': ')
  }

  #note(cause: unknown): string {
    return (this.#problem = `redis-server cannot be started: ${describeError(cause)}`)
  }

  /** Runs a server until it ends. If another server has the lock, watches that server instead. @returns why it ended */
  async #runOnce(): Promise<string> {
    const { code, signal } = await this.#spawnServer()
    if (code !== lockTakenCode) return signal === null ? `exit code ${code}` : `signal ${signal}`
    const pid = await this.#waitForPid()
    if (pid === undefined) return 'its directory is locked, but no server runs there'
    this.options.log.info({ redisPid: pid }, 'redis-server: adopted the running server')
    while (!this.#stopping.signal.aborted && (await this.#isServer(pid))) await delay(pollMs)
    return 'the adopted server has ended'
  }

  async #spawnServer(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const { program } = this.options
    const child = spawn('flock', [...lockArgs, this.#paths.lock, program, this.#paths.config], {
      cwd: this.#paths.directory,
      detached: true,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    this.#forwardLog(child)
    return new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code, signal) => resolve({ code, signal }))
    })
  }

  /** Logs the lines of the server, `pid:role date level message`. Important lines have the level `#`. */
  #forwardLog(child: ChildProcess): void {
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue
      createInterface({ input: stream }).on('line', (line) => {
        const text = line.replace(/^\d+:\w \d+ \w+ \d+ [\d:.]+ /, '')
        if (text.includes('Ready to accept connections')) this.#problem = ''
        if (/^# .*(warning|error|fail|fatal|can't|cannot|bad|unexpected|unknown)/i.test(text)) {
          this.#lastWarning = text.slice(2)
          this.options.log.warn(`redis-server: ${text.slice(2)}`)
        } else if (text.trim() !== '') this.options.log.debug(`redis-server: ${text}`)
      })
    }
  }

  /** Waits for the pid file, which a server writes after it has taken the lock. */
  async #waitForPid(): Promise<number | undefined> {
    for (const deadline = performance.now() + 5000; performance.now() < deadline; await delay(pollMs)) {
      const pid = await this.findPid()
      if (pid !== undefined) return pid
    }
    return undefined
  }

  async #isServer(pid: number): Promise<boolean> {
    try {
      const [cwd, stat, directory] = await Promise.all([
        readlink(`/proc/${pid}/cwd`),
        readFile(`/proc/${pid}/stat`, 'utf8'),
        realpath(this.#paths.directory),
      ])
      const [, name = '', state = ''] = /^\d+ \((.*)\) (\S) /s.exec(stat) ?? []
      const names = ['flock', basename(this.options.program).slice(0, 15)] // the kernel's limit: proc_pid_comm(5)
      return cwd === directory && names.includes(name) && !['Z', 'X'].includes(state)
    } catch {
      return false
    }
  }

  async #end(pid: number | undefined): Promise<void> {
    const target = pid ?? this.#child?.pid
    if (target === undefined || !(await this.#isServer(target))) return
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      sendSignal(target, signal)
      for (const deadline = performance.now() + stopTimeoutMs; performance.now() < deadline; await delay(20))
        if (!(await this.#isServer(target))) return
      this.options.log.error({ redisPid: target, signal }, 'redis-server did not end after a signal')
    }
  }

  async #accepts(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.#paths.socket)
      const done = (answer: boolean) => {
        socket.destroy()
        resolve(answer)
      }
      socket.once('connect', () => done(true)).once('error', () => done(false))
    })
  }
}

/**
 * Runs a tool that locks the server's directory, so that no Redis server uses the directory meanwhile.
 * @returns the tool's exit code, or `lockTakenCode`, and its output
 */
function runLocked(lock: string, command: readonly string[], input: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn('flock', [...lockArgs, lock, ...command], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString('utf8')).slice(-65_536)))
    child.once('error', reject)
    child.once('close', (code) => resolve({ code: code ?? 1, output }))
    child.stdin.on('error', () => undefined).end(input)
  })
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // ESRCH: the process has already ended.
  }
}
