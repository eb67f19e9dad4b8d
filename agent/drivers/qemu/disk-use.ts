import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { RunPaths } from './paths.js'
import { parseFileSystems } from './parse-file-systems.js'
import { withGuestAgent } from './qmp/guest-agent.js'

interface Answer {
  /** Bytes in use; undefined if the guest has no agent, or if its agent does not report file systems. */
  bytes?: number | undefined
  readonly askedMs: number
  /** Resolves when the guest agent has answered or failed; never rejects. */
  asking: Promise<void>
  /** True if the guest agent answered the previous query in time. If false, callers do not wait for a new answer. */
  isQuick: boolean
}

const everyMs = 60_000
/** Maximum age in ms of a guest agent's answer. A younger answer is returned without a new query. */
const freshMs = 2000
/** Time in ms that a caller waits for a guest agent. */
const waitMs = 300
const timeoutMs = 1000

/**
 * Reports the use of guests' file systems. The host itself cannot see the use, because freed blocks stay in the disk
 * image until the guest discards them. Guest agents are queried in the background. Only callers of `refresh` wait, for
 * a short time.
 */
export class DiskUse {
  readonly #answers = new Map<string, Answer>()

  /** Returns the bytes in use according to the guest agent's last answer. @param mostBytes size of the disk */
  read(name: string, run: RunPaths, mostBytes: number): number | undefined {
    const last = this.#answers.get(name)
    if (!last || performance.now() - last.askedMs >= everyMs) this.#ask(name, run, mostBytes)
    return last?.bytes
  }

  /** Queries the guest agent if its last answer is not fresh. Callers wait for a slow agent at most once a minute. */
  async refresh(name: string, run: RunPaths, mostBytes: number): Promise<number | undefined> {
    const last = this.#answers.get(name)
    const ageMs = last ? performance.now() - last.askedMs : Infinity
    const isDue = ageMs >= (last?.isQuick === false ? everyMs : freshMs)
    const answer = last && !isDue ? last : this.#ask(name, run, mostBytes)
    if (answer.isQuick) answer.isQuick = await isSoonerThan(answer.asking, waitMs)
    return answer.bytes
  }

  forget(name: string): void {
    this.#answers.delete(name)
  }

  #ask(name: string, run: RunPaths, mostBytes: number): Answer {
    const asking = ask(run, mostBytes).then((bytes) => void (answer.bytes = bytes))
    const bytes = this.#answers.get(name)?.bytes
    const answer: Answer = { bytes, askedMs: performance.now(), asking, isQuick: true }
    this.#answers.set(name, answer)
    return answer
  }
}

async function isSoonerThan(work: Promise<void>, ms: number): Promise<boolean> {
  const ended = new AbortController()
  const late = delay(ms, false, { signal: ended.signal }).catch(() => false)
  const isSooner = await Promise.race([work.then(() => true), late])
  ended.abort()
  return isSooner
}

async function ask(run: RunPaths, mostBytes: number): Promise<number | undefined> {
  if (existsSync(run.frozen)) return undefined // a frozen guest's agent accepts only a thaw
  const answer = await withGuestAgent(
    run.agent,
    (agent) => agent.ask('guest-get-fsinfo', undefined, timeoutMs),
    timeoutMs,
  ).catch(() => undefined)
  return parseFileSystems(answer, mostBytes)
}
