import { existsSync, rmSync, writeFileSync } from 'node:fs'
import type { Logger } from 'pino'
import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { BerthError } from '../../../shared/errors.js'
import type { RunPaths } from './paths.js'
import { withGuestAgent } from './qmp/guest-agent.js'

export interface FreezingOptions {
  readonly runOf: (name: string) => RunPaths
  /** Returns false if the guest is stopped, or no program in it has opened the guest agent's port. */
  readonly listens: (name: string) => Promise<boolean>
  readonly log: Logger
  /** Time in ms within which a guest must answer a request to thaw; default 5 s. */
  readonly thawTimeoutMs?: number
  /** Pause in ms before the first retry of a thaw; default 1 s. Each retry doubles the pause, up to a factor of ten. */
  readonly pauseMs?: number
}

/**
 * Freezes guests' file systems through their guest agents, and thaws them. A guest agent executes one command at a
 * time. A freeze that exceeds its timeout is therefore still completed, and a thaw has to wait for it. A file marks the
 * guest from shortly before its freeze until the guest confirms a thaw. Thaws are retried in the background until the
 * guest confirms one, or the guest or its agent has ended.
 */
export class FileSystemFreezer {
  readonly #thaws = new KeyedSingleFlight<string>()
  readonly #retries = new Map<string, NodeJS.Timeout>()
  #closed = false

  constructor(private readonly options: FreezingOptions) {}

  /**
   * Freezes a guest. The caller must thaw the guest in any case.
   * @returns false if the guest is not frozen, or did not answer in time
   */
  async freeze(name: string, timeoutMs: number): Promise<boolean> {
    const run = this.options.runOf(name)
    if (!(await this.options.listens(name))) return false
    if (this.#thaws.has(name) || existsSync(run.frozen)) return false // the last freeze has not been thawed yet
    clearTimeout(this.#retries.get(name)) // this thaw was planned for an earlier run of the guest
    return freezeInside(run, timeoutMs)
  }

  /**
   * Thaws the guest if a freeze was begun.
   * @throws if the guest is not thawed yet; the thaw is then retried in the background
   */
  async thaw(name: string): Promise<void> {
    try {
      await this.#thawOnce(name)
    } catch (error) {
      this.#retryAfter(name, this.#pauseMs)
      throw error
    }
  }

  /** Stops the retries. The files that mark frozen guests stay, so that the next agent thaws the guests. */
  close(): void {
    this.#closed = true
    for (const timer of this.#retries.values()) clearTimeout(timer)
  }

  get #pauseMs(): number {
    return this.options.pauseMs ?? 1000
  }

  /** Runs at most one thaw per guest. A second thaw could thaw file systems that were frozen after the first thaw. */
  #thawOnce(name: string): Promise<void> {
    return this.#thaws.run(name, () => this.#thaw(name))
  }

  async #thaw(name: string): Promise<void> {
    const { frozen, agent: path } = this.options.runOf(name)
    const { listens, thawTimeoutMs = 5000 } = this.options
    if (!existsSync(frozen)) return
    if (await listens(name))
      await withGuestAgent(path, (agent) => agent.ask('guest-fsfreeze-thaw', undefined, thawTimeoutMs), thawTimeoutMs)
    rmSync(frozen, { force: true })
  }

  #retryAfter(name: string, pauseMs: number): void {
    if (this.#closed) return
    clearTimeout(this.#retries.get(name))
    this.#retries.set(name, setTimeout(() => void this.#retry(name, pauseMs), pauseMs).unref())
  }

  async #retry(name: string, pauseMs: number): Promise<void> {
    this.#retries.delete(name)
    try {
      await this.#thawOnce(name)
      this.options.log.info({ name }, 'a virtual machine was thawed later than planned')
    } catch {
      this.#retryAfter(name, Math.min(2 * pauseMs, 10 * this.#pauseMs))
    }
  }
}

async function freezeInside(run: RunPaths, timeoutMs: number): Promise<boolean> {
  writeFileSync(run.frozen, '', { mode: 0o600 }) // first, so that the next agent thaws the guest after a crash
  let sent = false
  const freeze = withGuestAgent(
    run.agent,
    (agent) => {
      sent = true
      return agent.ask('guest-fsfreeze-freeze', undefined, timeoutMs)
    },
    timeoutMs,
  )
  try {
    await freeze
    return true
  } catch (error) {
    if (!sent || isRefusal(error)) rmSync(run.frozen, { force: true })
    return false
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'machine_refused'
}
