import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { describeError } from '../../shared/errors.js'
import type { TargetPolicy } from '../../shared/outbound-targets.js'
import { steadyClock } from '../../shared/steady-clock.js'
import type { Describe } from '../events/event.js'
import type { FleetView } from '../fleet/contract.js'
import { Lease } from '../store/lease.js'
import type { Store } from '../store/store.js'
import { Deliverer, type DelivererParts } from './deliverer.js'
import { defaultRetries, type LoggedDelivery, type RetryPlan } from './delivery.js'
import { DeliveryQueue, type QueuedDelivery } from './delivery-queue.js'
import type { News } from './fleet-news.js'
import { bodyOf, deliveryOf } from './plan-deliveries.js'
import { WebhookSender } from './sender.js'
import type { WebhookRecord } from './webhook-record.js'
import { WebhookRecords } from './webhook-records.js'

export interface WebhooksOptions {
  readonly store: Store
  /** 32 secret bytes, the same in all gateways on one store. */
  readonly secret: Buffer
  readonly policy: TargetPolicy
  readonly log: Logger
  /** Pauses between attempts to deliver a message. Default: `defaultRetries`. */
  readonly retries?: RetryPlan
  /** Time limit of an attempt to deliver a message, in ms. Default: 10 s. */
  readonly timeoutMs?: number
  /** Time in ms after which another gateway takes over the deliveries of a gateway that died. Default: 10 s. */
  readonly leaseMs?: number
}

/** Deliveries of a webhook: the pending deliveries, and the ended deliveries, newest first. */
export interface Deliveries {
  readonly waiting: readonly QueuedDelivery[]
  readonly ended: readonly LoggedDelivery[]
}

export const pingType = 'webhook.test'

/**
 * Notifies other programs of changes by HTTP. All gateways accept requests, but only the gateway that holds the lease
 * sends deliveries. Create the object before `store.start()`.
 */
export class Webhooks {
  readonly records: WebhookRecords
  readonly #queue: DeliveryQueue
  readonly #sender: WebhookSender
  /** Only the gateway that holds this lease delivers. */
  readonly lease: Lease
  readonly #leaseMs: number
  #deliverer: Deliverer | undefined
  /** Epoch that the lease had when the deliverer was created. `undefined`: no deliverer was created yet. */
  #delivererEpoch: number | undefined
  #timer: NodeJS.Timeout | undefined
  readonly #holding = new SingleFlight()
  #closed = false

  constructor(private readonly options: WebhooksOptions) {
    const { store, policy, timeoutMs } = options
    this.#leaseMs = options.leaseMs ?? 10_000
    this.records = new WebhookRecords(options)
    this.#sender = new WebhookSender({ policy, ...(timeoutMs && { timeoutMs }) })
    this.lease = new Lease(store, 'webhook-lease', this.#leaseMs)
    this.#queue = new DeliveryQueue(store, this.lease)
    this.records.onChange(() => this.#deliverer?.work())
    store.onInvalidate(this.#queue.manualKey, () => this.#deliverer?.work())
  }

  /** Starts to deliver as soon as this gateway holds the lease. */
  start(view: FleetView, describe: Describe): void {
    const hold = (): void => void this.#holding.run(() => this.#hold(view, describe))
    this.records.onChange(hold)
    this.options.store.on('up', hold) // the lease can have expired while the store was down
    this.#timer = setInterval(hold, this.#leaseMs / 4)
    hold()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    await this.#holding.settled()
    await this.#stopDelivering()
    await this.lease.release().catch(() => undefined) // after a failure, the lease expires by itself
    this.#sender.close()
  }

  /**
   * Removes a webhook. The gateway that delivers events then deletes the webhook's pending deliveries and its log.
   * @throws {BerthError} `store_unavailable`
   */
  async remove(id: string): Promise<void> {
    await this.#queue.noteRemoved(id)
    await this.records.remove(id)
  }

  /** Queues a test event. @returns the id of the delivery @throws {BerthError} `not_found` */
  async test(id: string): Promise<string> {
    const { name } = this.records.get(id)
    const about = { type: pingType, hostId: '', guestUuid: '', data: JSON.stringify({ webhook: name }) }
    const names = { id: randomUUID(), eventId: `evt_${randomUUID()}`, nowMs: steadyClock.now() }
    await this.#queue.send({ webhookId: id, delivery: deliveryOf(about, bodyOf(about, names), names) })
    return names.id
  }

  /** Returns a delivery from the log. @throws {BerthError} `not_found`, `store_unavailable` */
  async ended(id: string, deliveryId: string): Promise<LoggedDelivery> {
    this.records.get(id)
    return this.#queue.getLogged(id, deliveryId)
  }

  /** Queues a delivery from the log again, unchanged. @returns its new id @throws {BerthError} `not_found` */
  async redeliver(id: string, deliveryId: string): Promise<string> {
    const { outcome: _, number: _n, last: _l, ...before } = await this.ended(id, deliveryId)
    const again = { id: randomUUID(), createdAtMs: steadyClock.now(), nextAtMs: 0, attempts: 0 }
    await this.#queue.send({ webhookId: id, delivery: { ...before, ...again } })
    return again.id
  }

  /** Reads the pending and the ended deliveries of a webhook. @throws {BerthError} `not_found`, `store_unavailable` */
  async deliveries(id: string): Promise<Deliveries> {
    this.records.get(id)
    const [waiting, ended] = await Promise.all([this.#queue.load(id), this.#queue.readLog(id)])
    return { waiting: waiting.reverse(), ended }
  }

  async #hold(view: FleetView, describe: Describe): Promise<void> {
    const held = await this.lease.take().catch((error: unknown) => {
      this.options.log.debug(
        { reason: describeError(error) },
        'webhooks: the store did not answer which gateway delivers events',
      )
      return this.lease.held
    })
    if (!held) return void (await this.#stopDelivering())
    if (this.#closed || !this.records.isKnown) return
    const { epoch } = this.lease
    if (epoch === undefined || (this.#deliverer && epoch === this.#delivererEpoch)) return
    // The lease was taken over. Another gateway can have changed the queue, so a new deliverer reads it from the store.
    const news = await this.#stopDelivering()
    this.#delivererEpoch = epoch
    // The epoch from before the wait is used, because `lease.epoch` is undefined if the lease has expired meanwhile.
    // A deliverer without an epoch could never write. A renewal in time keeps the epoch.
    const queue = new DeliveryQueue(this.options.store, this.lease, epoch)
    this.#deliverer = this.#createDeliverer(view, describe, queue, news)
  }

  #createDeliverer(view: FleetView, describe: Describe, queue: DeliveryQueue, news: readonly News[]): Deliverer {
    const { log, retries = defaultRetries } = this.options
    const parts = {
      view,
      describe,
      log,
      retries,
      queue,
      records: () => this.records.known,
      send: (...message: Parameters<DelivererParts['send']>) => this.#send(...message),
    }
    return new Deliverer(parts, news)
  }

  /** @throws {BerthError} `lease_lost` if another gateway can deliver now, for example after a pause of this process */
  async #send(webhook: WebhookRecord, message: { id: string; type: string; body: string }, signal: AbortSignal) {
    void this.lease.fence
    const secret = this.records.secretOf(webhook)
    return this.#sender.send({ ...message, url: webhook.url, secret }, signal)
  }

  /** @returns changes that the next deliverer of this process must queue, because the fleet view does not keep them */
  async #stopDelivering(): Promise<readonly News[]> {
    const deliverer = this.#deliverer
    this.#deliverer = undefined
    return (await deliverer?.stop()) ?? []
  }
}
