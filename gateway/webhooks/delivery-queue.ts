import { notFound } from '../../shared/errors.js'
import type { Store } from '../store/store.js'
import type { Delivery, LoggedDelivery } from './delivery.js'

/** Commands that are executed together or not at all. */
interface Multi {
  hSet(key: string, field: string, value: string): unknown
  hDel(key: string, field: string): unknown
  del(keys: string[]): unknown
  sRem(key: string, member: string): unknown
  lPush(key: string, value: string): unknown
  lTrim(key: string, from: number, to: number): unknown
}

/** A delivery with its body. */
export interface QueuedDelivery extends Delivery {
  readonly body: string
}

/** A manual delivery without a number so far. */
export interface InboxEntry {
  readonly webhookId: string
  readonly delivery: Omit<QueuedDelivery, 'number'>
}

/** The revision of each host up to which its changes have become deliveries. */
export type Cursors = ReadonlyMap<string, number>

/** Most ended deliveries in the log of each webhook. */
const loggedDeliveries = 200

/**
 * Pending and ended deliveries.
 *
 * | key | holds |
 * |---|---|
 * | `webhook-queue:ID` | hash: number → QueuedDelivery as JSON |
 * | `webhook-log:ID` | list: LoggedDelivery as JSON, newest first |
 * | `webhook-inbox` | list: InboxEntry as JSON, for the gateway that delivers |
 * | `webhook-cursors` | hash: host id → revision |
 * | `webhook-removed` | set: ids whose queue and log must be deleted |
 *
 * Every method throws BerthError `store_unavailable`.
 */
export class DeliveryQueue {
  constructor(private readonly store: Store) {}

  get inboxKey(): string {
    return this.store.key('webhook-inbox')
  }

  /** In order. */
  async load(webhookId: string): Promise<QueuedDelivery[]> {
    const texts = await this.store.run('read deliveries', (client) => client.hVals(this.#queueKey(webhookId)))
    return texts.map((text) => JSON.parse(text) as QueuedDelivery).sort((a, b) => a.number - b.number)
  }

  /** The body of a pending delivery; undefined: it does not exist any more. */
  async readBody(webhookId: string, number: number): Promise<string | undefined> {
    const text = await this.store.run('read a delivery', (client) =>
      client.hGet(this.#queueKey(webhookId), String(number)),
    )
    return text === null ? undefined : (JSON.parse(text) as QueuedDelivery).body
  }

  /** Durable when it resolves, in one transaction with the hosts' revisions up to which it is complete. */
  async add(made: ReadonlyMap<string, readonly QueuedDelivery[]>, cursors: Cursors): Promise<void> {
    await this.#commit('queue deliveries', (multi) => {
      this.#put(multi, made)
      for (const [hostId, revision] of cursors) multi.hSet(this.#cursorsKey, hostId, String(revision))
    })
  }

  /** Records a failed attempt. */
  async update(webhookId: string, delivery: QueuedDelivery): Promise<void> {
    await this.#commit('note an attempt', (multi) => this.#put(multi, new Map([[webhookId, [delivery]]])))
  }

  /** Moves an ended delivery to the log. */
  async end(webhookId: string, ended: LoggedDelivery): Promise<void> {
    const log = this.#logKey(webhookId)
    await this.#commit('end a delivery', (multi) => {
      multi.hDel(this.#queueKey(webhookId), String(ended.number))
      multi.lPush(log, JSON.stringify(ended))
      multi.lTrim(log, 0, loggedDeliveries - 1)
    })
  }

  /** Newest first. */
  async readLog(webhookId: string): Promise<LoggedDelivery[]> {
    const texts = await this.store.run('read ended deliveries', (client) =>
      client.lRange(this.#logKey(webhookId), 0, -1),
    )
    return texts.map((text) => JSON.parse(text) as LoggedDelivery)
  }

  /** @throws {BerthError} `not_found` for a delivery that has not ended, or is not in the log any more */
  async getLogged(webhookId: string, id: string): Promise<LoggedDelivery> {
    const found = (await this.readLog(webhookId)).find((one) => one.id === id)
    if (!found) throw notFound('ended delivery')
    return found
  }

  /**
   * Records that a webhook is about to be removed, so that its remains are deleted whenever a gateway delivers again.
   */
  async noteRemoved(webhookId: string): Promise<void> {
    await this.store.run('note a removed webhook', (client) => client.sAdd(this.#removedKey, webhookId))
  }

  /** Recorded ids, including those of webhooks that still exist. */
  async readRemoved(): Promise<string[]> {
    return this.store.run('read removed webhooks', (client) => client.sMembers(this.#removedKey))
  }

  /** Deletes all data of a webhook, including the record of its removal. */
  async remove(webhookId: string): Promise<void> {
    await this.#commit('remove deliveries', (multi) => {
      multi.del([this.#queueKey(webhookId), this.#logKey(webhookId)])
      multi.sRem(this.#removedKey, webhookId)
    })
  }

  async send(entry: InboxEntry): Promise<void> {
    await this.store.run('order a delivery', (client) => client.rPush(this.inboxKey, JSON.stringify(entry)))
  }

  /** Manual deliveries, oldest first. */
  async readInbox(): Promise<InboxEntry[]> {
    const texts = await this.store.run('read ordered deliveries', (client) => client.lRange(this.inboxKey, 0, 99))
    return texts.map((text) => JSON.parse(text) as InboxEntry)
  }

  /** Queues manual deliveries, the first `count` of the inbox. */
  async takeInbox(made: ReadonlyMap<string, readonly QueuedDelivery[]>, count: number): Promise<void> {
    await this.#commit('queue ordered deliveries', (multi) => {
      this.#put(multi, made)
      multi.lTrim(this.inboxKey, count, -1)
    })
  }

  async readCursors(): Promise<Map<string, number>> {
    const found = await this.store.run('read cursors', (client) => client.hGetAll(this.#cursorsKey))
    return new Map(Object.entries(found).map(([hostId, revision]) => [hostId, Number(revision)]))
  }

  /** Later changes are sent again, but not those that happened meanwhile. */
  async forgetCursors(): Promise<void> {
    await this.store.run('forget cursors', (client) => client.del(this.#cursorsKey))
  }

  #put(multi: Multi, made: ReadonlyMap<string, readonly QueuedDelivery[]>): void {
    for (const [webhookId, deliveries] of made)
      for (const delivery of deliveries)
        multi.hSet(this.#queueKey(webhookId), String(delivery.number), JSON.stringify(delivery))
  }

  async #commit(step: string, write: (multi: Multi) => void): Promise<void> {
    await this.store.run(step, async (client) => {
      const multi = client.multi()
      write(multi)
      await multi.exec()
    })
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
