import type { Logger } from 'pino'
import { setTimeout as delay } from 'node:timers/promises'
import { nextAttemptMs, type DeliveryAttempt, type Delivery, type RetryPlan } from './delivery.js'
import type { DeliveryQueue, QueuedDelivery } from './delivery-queue.js'
import { droppedType } from './plan-deliveries.js'
import type { WebhookRecord } from './webhook-record.js'
import { steadyClock } from '../../shared/steady-clock.js'

export interface OutboxParts {
  readonly queue: DeliveryQueue
  readonly retries: RetryPlan
  readonly log: Logger
  /** Finds the webhook in its present state. `undefined`: the webhook was removed. */
  readonly find: () => WebhookRecord | undefined
  readonly send: (webhook: WebhookRecord, message: MessageParts, signal: AbortSignal) => Promise<DeliveryAttempt>
}

export interface MessageParts {
  readonly id: string
  readonly type: string
  readonly body: string
}

/** Maximum number of concurrent deliveries to one receiver. These deliveries concern different containers or hosts. */
const parallel = 4
/** Pause in ms between attempts to store the result of a delivery. */
const storeRetryMs = 500

/** Pending deliveries about one container or host. They are sent one after another. */
interface OrderedQueue {
  readonly waiting: Delivery[]
  busy: boolean
  timer: NodeJS.Timeout | undefined
}

/**
 * Sends the deliveries of one webhook. Until a delivery is sent, its body stays in the store. Deliveries about one
 * container are sent in order: each waits until the previous delivery was accepted or has failed for good. A receiver
 * that fails gets one delivery at a time.
 */
export class Outbox {
  readonly #queues = new Map<string, OrderedQueue>()
  /** Uuids of containers and ids of hosts (keys in `#queues`) whose first delivery can be sent now. */
  #due: string[] = []
  #running = 0
  #failures = 0
  #size = 0
  #notices = 0
  readonly #abort = new AbortController()

  constructor(
    readonly webhookId: string,
    private readonly parts: OutboxParts,
  ) {}

  /** Number of pending deliveries, including deliveries that are being sent. */
  get size(): number {
    return this.#size
  }

  /** Number of pending deliveries about one container, including the one that is being sent. */
  waitingOf(key: string): number {
    return this.#queues.get(key)?.waiting.length ?? 0
  }

  /** True if the notice about dropped events has not been delivered to the receiver yet. */
  get hasNotice(): boolean {
    return this.#notices > 0
  }

  /** Adds stored deliveries in the order of their numbers. */
  add(deliveries: readonly QueuedDelivery[]): void {
    for (const { body: _, ...delivery } of deliveries) {
      const queue = this.#queueOf(delivery.key)
      this.#count(delivery, 1)
      if (queue.waiting.push(delivery) === 1) this.#schedule(delivery.key, queue)
    }
    this.pump()
  }

  /** Sends due deliveries. Call this also when a webhook was enabled. */
  pump(): void {
    const atOnce = this.#failures > 0 ? 1 : parallel
    while (this.#running < atOnce && this.#due.length > 0 && this.#isOn) {
      const key = this.#due.shift()!
      const queue = this.#queues.get(key)
      if (!queue || queue.busy) continue
      this.#running++
      queue.busy = true
      void this.#run(key, queue)
    }
  }

  /** Aborts the attempts in progress. The next gateway that delivers repeats these attempts. */
  stop(): void {
    this.#abort.abort()
    for (const { timer } of this.#queues.values()) clearTimeout(timer)
    this.#due = []
  }

  get #isOn(): boolean {
    return !this.#abort.signal.aborted && this.parts.find()?.disabled === false
  }

  #queueOf(key: string): OrderedQueue {
    const known = this.#queues.get(key)
    if (known) return known
    const made: OrderedQueue = { waiting: [], busy: false, timer: undefined }
    this.#queues.set(key, made)
    return made
  }

  #schedule(key: string, queue: OrderedQueue): void {
    const [first] = queue.waiting
    if (!first) return void this.#queues.delete(key)
    const waitMs = first.nextAtMs - steadyClock.now()
    if (waitMs <= 0) return void this.#due.push(key)
    queue.timer = setTimeout(() => {
      this.#due.push(key)
      this.pump()
    }, waitMs)
  }

  async #run(key: string, queue: OrderedQueue): Promise<void> {
    try {
      await this.#deliver(queue)
    } catch (err) {
      if (!this.#abort.signal.aborted)
        this.parts.log.warn({ err, webhook: this.webhookId }, 'could not deliver an event')
      await this.#pause()
    }
    this.#running--
    queue.busy = false
    if (this.#abort.signal.aborted) return
    this.#schedule(key, queue)
    this.pump()
  }

  async #deliver(queue: OrderedQueue): Promise<void> {
    const delivery = queue.waiting[0]!
    const body = await this.parts.queue.readBody(this.webhookId, delivery.number)
    const webhook = this.parts.find()
    if (body === undefined || !webhook) return this.#drop(queue)
    const { eventId: id, type } = delivery
    const last = await this.parts.send(webhook, { id, type, body }, this.#abort.signal)
    if (this.#abort.signal.aborted) return
    this.#failures = last.error === '' ? 0 : this.#failures + 1
    await this.#settle(queue, { ...delivery, body, attempts: delivery.attempts + 1, last })
  }

  async #settle(queue: OrderedQueue, tried: QueuedDelivery & { last: DeliveryAttempt }): Promise<void> {
    const { createdAtMs, attempts } = tried
    const plan = { createdAtMs, attempts, nowMs: steadyClock.now(), random: Math.random() }
    const delivered = tried.last.error === ''
    const nextAtMs = delivered ? undefined : nextAttemptMs(this.parts.retries, plan)
    if (nextAtMs === undefined) {
      const outcome = delivered ? 'delivered' : 'failed'
      await this.#store(async (isRepeated) => {
        if (isRepeated && (await this.#hasEnded(tried))) return
        await this.parts.queue.end(this.webhookId, { ...tried, outcome })
      })
      return this.#drop(queue)
    }
    const again = { ...tried, nextAtMs }
    await this.#store(() => this.parts.queue.update(this.webhookId, again))
    const { body: _, ...kept } = again
    queue.waiting[0] = kept
  }

  #drop(queue: OrderedQueue): void {
    const gone = queue.waiting.shift()
    if (gone) this.#count(gone, -1)
  }

  #count({ type }: Delivery, by: 1 | -1): void {
    this.#size += by
    if (type === droppedType) this.#notices += by
  }

  /** True if the store moved the delivery to the log although the call failed. A repeated call would log it twice. */
  async #hasEnded({ number }: QueuedDelivery): Promise<boolean> {
    return (await this.parts.queue.readBody(this.webhookId, number)) === undefined
  }

  /**
   * Stores the result of a delivery. Repeats the write until it succeeds.
   * @param write called with true if an earlier call failed; the store has possibly executed that call
   */
  async #store(write: (isRepeated: boolean) => Promise<void>): Promise<void> {
    for (let isRepeated = false; ; isRepeated = true) {
      try {
        return await write(isRepeated)
      } catch (err) {
        this.parts.log.warn({ err, webhook: this.webhookId }, 'could not store the result of a delivery')
        this.#abort.signal.throwIfAborted()
        await this.#pause()
      }
    }
  }

  async #pause(): Promise<void> {
    await delay(storeRetryMs, undefined, { signal: this.#abort.signal }).catch(() => undefined)
  }
}
