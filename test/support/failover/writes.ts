import { setTimeout as delay } from 'node:timers/promises'
import type { LabReply } from './lab-client.js'

/** Pause in ms before a request is repeated. */
const pauseMs = 200
/** Time in ms after which a write without a known result is no longer repeated and counts as unanswered. */
const patienceMs = 300_000
/** Codes of refusals that a client repeats, because the obstacle may be gone. */
const temporary = ['task_running', 'invalid_state', 'resource_exhausted', 'rate_limited']

export interface WriteResult {
  readonly outcome: 'acknowledged' | 'refused' | 'unanswered'
  readonly reply: LabReply
  /** Number of requests, including the first one. */
  readonly attempts: number
}

export interface WriteOptions {
  /** Returns true if the answer to a repeated write shows that an earlier attempt succeeded. */
  readonly isDone?: (reply: LabReply) => boolean
  /** True for writes of API keys. The longest gap ignores other writes, which may succeed while Redis is down. */
  readonly isKey?: boolean
}

/** Repeats writes as the manual recommends, and records all answers. */
export class Writes {
  acknowledged = 0
  /** Number of answers that were not an acknowledgement, by HTTP status and code. */
  readonly refusals = new Map<string, number>()
  /** Longest time from the first request of a write to its acknowledgement, in ms. */
  slowestMs = 0
  #lastMs = performance.now()
  #longestGapMs = 0

  /** Returns the longest time in ms without an acknowledged write of a key since the last call of this method. */
  takeLongestGapMs(): number {
    const gapMs = Math.max(this.#longestGapMs, performance.now() - this.#lastMs)
    this.#longestGapMs = 0
    this.#lastMs = performance.now()
    return gapMs
  }

  /** Repeats a write until its result is known, at most for `patienceMs`. */
  async make(send: () => Promise<LabReply>, { isDone, isKey = false }: WriteOptions = {}): Promise<WriteResult> {
    const beganMs = performance.now()
    for (let attempts = 1; ; attempts++) {
      const reply = await send()
      const isAcknowledged = reply.status >= 200 && reply.status < 300
      if (isAcknowledged || (attempts > 1 && isDone?.(reply))) {
        this.#note(beganMs, isKey)
        return { outcome: 'acknowledged', reply, attempts }
      }
      this.#noteRefusal(reply)
      if (!mayRepeat(reply)) return { outcome: 'refused', reply, attempts }
      if (performance.now() - beganMs > patienceMs) return { outcome: 'unanswered', reply, attempts }
      await delay(pauseMs)
    }
  }

  #note(beganMs: number, isKey: boolean): void {
    const nowMs = performance.now()
    this.acknowledged++
    this.slowestMs = Math.max(this.slowestMs, nowMs - beganMs)
    if (!isKey) return
    this.#longestGapMs = Math.max(this.#longestGapMs, nowMs - this.#lastMs)
    this.#lastMs = nowMs
  }

  #noteRefusal(reply: LabReply): void {
    const name = `${reply.status} ${codeOf(reply)}`
    this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1)
  }
}

/** Code of Berth's error; for HAProxy's own errors and lost answers a short text. */
export function codeOf({ status, body, text }: LabReply): string {
  if (status === 0) return text
  return (body as { code?: string } | undefined)?.code ?? 'HAProxy'
}

function mayRepeat(reply: LabReply): boolean {
  if (reply.status === 0 || reply.status >= 500) return true
  return reply.status === 429 || (reply.status === 409 && temporary.includes(codeOf(reply)))
}
