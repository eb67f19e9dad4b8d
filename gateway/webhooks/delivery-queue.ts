import { notFound } from '../../shared/errors.js'
import type { Lease } from '../store/lease.js'
import { LeasedWrites, type Transaction } from '../store/leased-writes.js'
import type { Store } from '../store/store.js'
import type { Delivery, LoggedDelivery } from './delivery.js'

export interface QueuedDelivery extends Delivery {
  readonly body: string
}

/** A manual delivery: a test event or a repetition. It has no number yet. */
export interface ManualDelivery {
  readonly webhookId: string
  readonly delivery: Omit<QueuedDelivery, 'number'>
}

/** Revision up to which deliveries were created for the changes of a host, by host id. */
export type Cursors = ReadonlyMap<string, number>

/** Maximum number of ended deliveries in the log of a webhook. */
const loggedDeliveries = 200

/**
 * Pending and ended deliveries. All methods throw BerthError `store_unavailable`. Methods that only the delivering
 * gateway may call also throw `lease_lost`.
 *
 * | key | holds |
 * |---|---|
 * | `webhook-queue:ID` | hash: number → QueuedDelivery as JSON |
 * | `webhook-log:ID` | list: LoggedDelivery as JSON, newest first |
 * | `webhook-inbox` | list: ManualDelivery as JSON, for the gateway that delivers |
 * | `webhook-cursors` | hash: host id → revision |
 * | `webhook-removed` | set: ids whose queue and log must be deleted |
 */
export class DeliveryQueue {
  /** Writes that only succeed while this gateway holds the lease for deliveries. */
  readonly #own: LeasedWrites

  /** @param epoch epoch of the lease, see `LeasedWrites` */
  constructor(
    private readonly store: Store,
    lease: Lease,
    epoch?: number,
  ) {
    this.#own = new LeasedWrites(store, lease, epoch)
  }

  get manualKey(): string {
    return this.store.key('webhook-inbox')
  }

  /** Reads the pending deliveries of a webhook, in order. */
  async load(webhookId: string): Promise<QueuedDelivery[]> {
    return parseDeliveries(await this.store.run('read deliveries', (client) => client.hVals(this.#queueKey(webhookId))))
  }

  /**
   * Like `load`, but first waits until the replicas of the store have the deliveries. If a delivery was sent and then
   * lost with the master, it would be sent a second time with another id.
   */
  async loadConfirmed(webhookId: string): Promise<QueuedDelivery[]> {
    // `transact` waits for the replicas even if the commands only read. `run` does not.
    return parseDeliveries(
      await this.store.transact('read deliveries', (client) => client.hVals(this.#queueKey(webhookId))),
    )
  }

  /** Reads the body of a pending delivery. `undefined`: the delivery no longer exists. */
  async readBody(webhookId: string, number: number): Promise<string | undefined> {
    const text = await this.store.run('read a delivery', (client) =>
      client.hGet(this.#queueKey(webhookId), String(number)),
    )
    return text === null ? undefined : (JSON.parse(text) as QueuedDelivery).body
  }

  /** Stores deliveries and, for each host, the revision up to which deliveries were created, in one transaction. */
  async add(made: ReadonlyMap<string, readonly QueuedDelivery[]>, cursors: Cursors): Promise<void> {
    await this.#own.write((multi) => {
      this.#put(multi, made)
      for (const [hostId, revision] of cursors) multi.hSet(this.#cursorsKey, hostId, String(revision))
    })
  }

  /** Stores a delivery after a failed attempt. */
  async update(webhookId: string, delivery: QueuedDelivery): Promise<void> {
    await this.#own.write((multi) => this.#put(multi, new Map([[webhookId, [delivery]]])))
  }

  /** Moves an ended delivery to the log. */
  async end(webhookId: string, ended: LoggedDelivery): Promise<void> {
    const log = this.#logKey(webhookId)
    await this.#own.write((multi) => {
      multi.hDel(this.#queueKey(webhookId), String(ended.number))
      multi.lPush(log, JSON.stringify(ended))
      multi.lTrim(log, 0, loggedDeliveries - 1)
    })
  }

  /** Reads the log of a webhook, newest first. */
  async readLog(webhookId: string): Promise<LoggedDelivery[]> {
    const texts = await this.store.run('read finished deliveries', (client) =>
      client.lRange(this.#logKey(webhookId), 0, -1),
    )
    return texts.map((text) => JSON.parse(text) as LoggedDelivery)
  }

  /** @throws {BerthError} `not_found` if the delivery has not ended, or is no longer in the log */
  async getLogged(webhookId: string, id: string): Promise<LoggedDelivery> {
    const found = (await this.readLog(webhookId)).find((one) => one.id === id)
    if (!found) throw notFound('finished delivery')
    return found
  }

  /** Records that a webhook will be removed. The delivering gateway deletes the webhook's data. */
  async noteRemoved(webhookId: string): Promise<void> {
    await this.store.run('record the removal of a webhook', (client) => client.sAdd(this.#removedKey, webhookId))
  }

  /** Reads the ids that `noteRemoved` has stored. A webhook whose removal then failed still exists. */
  async readRemoved(): Promise<string[]> {
    return this.store.run('read removed webhooks', (client) => client.sMembers(this.#removedKey))
  }

  /** Deletes all data of a webhook, and the record of its removal. */
  async remove(webhookId: string): Promise<void> {
    await this.#own.write((multi) => {
      multi.del([this.#queueKey(webhookId), this.#logKey(webhookId)])
      multi.sRem(this.#removedKey, webhookId)
    })
  }

  async send(entry: ManualDelivery): Promise<void> {
    await this.store.run('request a repeated delivery', (client) => client.rPush(this.manualKey, JSON.stringify(entry)))
  }

  /** Reads manual deliveries, oldest first. */
  async readManual(): Promise<ManualDelivery[]> {
    const texts = await this.store.run('read requested deliveries', (client) => client.lRange(this.manualKey, 0, 99))
    return texts.map((text) => JSON.parse(text) as ManualDelivery)
  }

  /** Stores the deliveries `made` in the queues, and removes the `count` manual deliveries that they replace. */
  async queueManual(made: ReadonlyMap<string, readonly QueuedDelivery[]>, count: number): Promise<void> {
    await this.#own.write((multi) => {
      this.#put(multi, made)
      multi.lTrim(this.manualKey, count, -1)
    })
  }

  async readCursors(): Promise<Map<string, number>> {
    const found = await this.store.run('read the positions of webhook deliveries', (client) =>
      client.hGetAll(this.#cursorsKey),
    )
    return new Map(Object.entries(found).map(([hostId, revision]) => [hostId, Number(revision)]))
  }

  /** Deletes the stored revisions after the last webhook was removed. A later webhook gets no earlier changes. */
  async forgetCursors(): Promise<void> {
    await this.#own.write((multi) => multi.del(this.#cursorsKey))
  }

  #put(multi: Transaction, made: ReadonlyMap<string, readonly QueuedDelivery[]>): void {
    for (const [webhookId, deliveries] of made)
      for (const delivery of deliveries)
        multi.hSet(this.#queueKey(webhookId), String(delivery.number), JSON.stringify(delivery))
  }

  #queueKey(webhookId: string): string {
    return this.store.key('webhook-queue', webhookId)
  }

  #logKey(webhookId: string): string {
    return this.store.key('webhook-log', webhookId)
  }

  get #removedKey(): string {
    return this.store.key('webhook-removed')
  }

  get #cursorsKey(): string {
    return this.store.key('webhook-cursors')
  }
}

function parseDeliveries(texts: readonly string[]): QueuedDelivery[] {
  return texts.map((text) => JSON.parse(text) as QueuedDelivery).sort((a, b) => a.number - b.number)
}
