import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import { distrustMs, isVisible, planAnswers } from './plan-visibility.js'
import { parseMessage, type HostRevision, type Message, type Question } from './visibility-message.js'

export interface VisibilityOptions {
  /**
   * Publishes a message to all gateways, on the same connection that receives their messages and changes of keys.
   * @returns the number of receivers
   */
  readonly publish: (message: string) => Promise<number>
  /** Resolves when this gateway has applied all reported changes of keys. */
  readonly applied: () => Promise<void>
  readonly log: Logger
}

/**
 * Finds out when a write is visible at all gateways on the store. Each gateway must have applied it, or must have been
 * silent for so long that it no longer uses its caches. See docs/design/several-gateways.md.
 */
export class Visibility {
  readonly #id = randomUUID()
  /** Monotonic time in ms until which each other gateway may use its caches, by gateway id, the earliest first. */
  readonly #trustedUntilMs = new Map<string, number>()
  /** Ids of gateways whose missing answers were logged. */
  readonly #unanswering = new Set<string>()
  readonly #answers = new Map<number, Set<string>>()
  readonly #answered = new KeyedCondition()
  #round = 0
  #connectedMs = 0
  #next: Promise<void> | undefined
  #shown: HostRevision[] = []
  #shows = (_: HostRevision): Promise<void> => Promise.resolve()

  constructor(private readonly options: VisibilityOptions) {}

  /** Call this when the subscription to the messages of the other gateways has begun. */
  connected(): void {
    this.#connectedMs = performance.now()
  }

  /** Reports to the other gateways that this gateway uses its caches. Call this before each period of use. */
  async serve(): Promise<void> {
    await this.#publish({ kind: 'serving', from: this.#id })
  }

  /** Reports that this gateway no longer uses its caches. The other gateways then do not wait for it. */
  async leave(): Promise<void> {
    await this.#publish({ kind: 'leaving', from: this.#id })
  }

  /**
   * Resolves when all writes that the store has acknowledged before this call are visible at all gateways. Calls in one
   * turn of the event loop share one request to the other gateways. Never rejects.
   */
  everywhere(): Promise<void> {
    this.#next ??= nextTurn().then(() => {
      const shown = this.#shown
      this.#shown = []
      this.#next = undefined
      return this.#ask(++this.#round, shown)
    })
    return this.#next
  }

  /**
   * Sets the function that handles questions of other gateways. Its promise must resolve when this gateway shows the
   * revision of the host or cannot reach the host, and at the latest after `distrustMs`.
   */
  onShowing(shows: (revision: HostRevision) => Promise<void>): void {
    this.#shows = shows
  }

  /** Resolves when all known gateways show the revision, after about a second at most. */
  shownEverywhere(revision: HostRevision): Promise<void> {
    this.#forgetSilent(performance.now())
    if (this.#trustedUntilMs.size === 0) return Promise.resolve()
    this.#shown.push(revision)
    return this.everywhere()
  }

  receive(text: string): void {
    const message = parseMessage(text)
    if (!message || message.from === this.#id) return
    const { from } = message
    switch (message.kind) {
      case 'serving':
        return this.#trust(from)
      case 'leaving':
        return this.#forget(from)
      case 'question':
        return void this.#answer(from, message).catch(() => undefined) // the gateway that has asked does not need the answer: it waits only for a limited time
      case 'answer':
        if (message.to === this.#id) this.#note(from, message.round)
    }
  }

  async #ask(round: number, shown: HostRevision[]): Promise<void> {
    const answers = new Set<string>()
    this.#answers.set(round, answers)
    try {
      const receivers = await this.#publish({ kind: 'question', from: this.#id, round, shown })
      await this.#wait(round, answers, receivers - 1)
    } catch {
      await delay(distrustMs) // nobody can answer: after this time, each gateway has applied the change or no longer uses its caches
    } finally {
      this.#answers.delete(round)
    }
  }

  async #wait(round: number, answers: ReadonlySet<string>, others: number): Promise<void> {
    const [nowMs, connectedMs] = [performance.now(), this.#connectedMs]
    const needed = planAnswers({ trustedUntilMs: this.#trustedUntilMs, others, nowMs, connectedMs })
    const isOver = (): boolean => isVisible(needed, answers)
    await this.#answered.wait(String(round), needed.untilMs - nowMs, isOver)
    if (isOver()) return
    this.#forgetSilent(needed.untilMs)
    for (const id of needed.from) if (!answers.has(id)) this.#noteUnanswered(id)
  }

  #trust(id: string): void {
    const nowMs = performance.now()
    this.#trustedUntilMs.delete(id) // deletes the id first, so that `set` puts it at the end: the map is ordered by time
    this.#trustedUntilMs.set(id, nowMs + distrustMs)
    this.#forgetSilent(nowMs)
  }

  /** Forgets gateways that have been silent for so long that they no longer use their caches at the time `nowMs`. */
  #forgetSilent(nowMs: number): void {
    for (const [id, untilMs] of this.#trustedUntilMs) {
      if (untilMs > nowMs) return
      this.#forget(id)
      this.options.log.warn({ gateway: id }, 'store: another gateway is silent; writes no longer wait for it')
    }
  }

  #forget(id: string): void {
    this.#trustedUntilMs.delete(id)
    this.#unanswering.delete(id)
  }

  /** Logs once that a gateway did not answer in time although it has recently sent messages. */
  #noteUnanswered(id: string): void {
    if (!this.#trustedUntilMs.has(id) || this.#unanswering.has(id)) return
    this.#unanswering.add(id)
    this.options.log.warn(
      { gateway: id },
      `store: another gateway did not answer in time; each write may wait up to ${distrustMs} ms for its answer`,
    )
  }

  async #answer(to: string, { round, shown }: Question): Promise<void> {
    await Promise.all([this.options.applied(), ...shown.map((revision) => this.#shows(revision))])
    await this.#publish({ kind: 'answer', from: this.#id, to, round })
  }

  #note(from: string, round: number): void {
    this.#answers.get(round)?.add(from)
    this.#answered.notify(String(round))
  }

  /** Publishes a message. @throws {BerthError} `store_unavailable`, also if there is no connection */
  async #publish(message: Message): Promise<number> {
    return this.options.publish(JSON.stringify(message))
  }
}
