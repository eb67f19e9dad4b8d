import { notFound } from '../../shared/errors.js'
import type { Store } from '../store/store.js'
import type { Delivery, LoggedDelivery } from './delivery.js'

/** Commands that are carried out together or not at all. */
interface Multi {
  hSet(key: string, field: string, value: string): unknown
  hDel(key: string, field: string): unknown
  del(keys: string[]): unknown
  sRem(key: string, member: string): unknown
  lPush(key: string, value: string): unknown
  lTrim(key: string, from: number, to: number): unknown
}

/** A delivery with what is sent. */
export interface QueuedDelivery extends Delivery {
  readonly body: string
}

/** A delivery that somebody ordered by hand, which has no number yet. */
export interface InboxEntry {
  readonly webhookId: string
  readonly delivery: Omit<QueuedDelivery, 'number'>
}

/** How far a host's changes have become deliveries: its revision. */
export type Cursors = ReadonlyMap<string, number>

/** Ended deliveries that are shown, of each webhook. */
const loggedDeliveries = 200

/**
 * What is to be delivered, and what was.
 *
 * | key | holds |
 * |---|---|
 * | `webhook-queue:ID` | hash: number → QueuedDelivery as JSON |
 * | `webhook-log:ID` | list: LoggedDelivery as JSON, newest first |
 * | `webhook-inbox` | list: InboxEntry as JSON, for the gateway that delivers |
 * | `webhook-cursors` | hash: host id → revision |
 * | `webhook-removed` | set: ids whose queue and log have to go |
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

  /** The body of one that waits; undefined: it is gone. */
  async readBody(webhookId: string, number: number): Promise<string | undefined> {
    const text = await this.store.run('read a delivery', (client) =>
      client.hGet(this.#queueKey(webhookId), String(number)),
    )
    return text === null ? undefined : (JSON.parse(text) as QueuedDelivery).body
  }

  /** Durable when it resolves, with the hosts' revisions up to which it is complete: all of it or nothing. */
  async add(made: ReadonlyMap<string, readonly QueuedDelivery[]>, cursors: Cursors): Promise<void> {
    await this.#commit('queue deliveries', (multi) => {
      this.#put(multi, made)
      for (const [hostId, revision] of cursors) multi.hSet(this.#cursorsKey, hostId, String(revision))
    })
  }

  /** Notes an attempt that failed. */
  async update(webhookId: string, delivery: QueuedDelivery): Promise<void> {
    await this.#commit('note an attempt', (multi) => this.#put(multi, new Map([[webhookId, [delivery]]])))
  }

  /** Moves one that has ended to the log. */
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

  /** @throws {BerthError} `not_found` for one that has not ended, or is no longer kept */
  async getLogged(webhookId: string, id: string): Promise<LoggedDelivery> {
    const found = (await this.readLog(webhookId)).find((one) => one.id === id)
    if (!found) throw notFound('ended delivery')
    return found
  }

  /** Notes one that is about to be removed, so that what is kept of it goes, whenever a gateway delivers again. */
  async noteRemoved(webhookId: string): Promise<void> {
    await this.store.run('note a removed webhook', (client) => client.sAdd(this.#removedKey, webhookId))
  }

  /** Ids that were noted, also of webhooks that are there still. */
  async readRemoved(): Promise<string[]> {
    return this.store.run('read removed webhooks', (client) => client.sMembers(this.#removedKey))
  }

  /** Removes what is kept of a webhook, the note of its removal, too. */
  async remove(webhookId: string): Promise<void> {
    await this.#commit('remove deliveries', (multi) => {
      multi.del([this.#queueKey(webhookId), this.#logKey(webhookId)])
      multi.sRem(this.#removedKey, webhookId)
    })
  }

  async send(entry: InboxEntry): Promise<void> {
    await this.store.run('order a delivery', (client) => client.rPush(this.inboxKey, JSON.stringify(entry)))
  }

  /** Ordered by hand, oldest first. */
  async readInbox(): Promise<InboxEntry[]> {
    const texts = await this.store.run('read ordered deliveries', (client) => client.lRange(this.inboxKey, 0, 99))
    return texts.map((text) => JSON.parse(text) as InboxEntry)
  }

  /** Queues what was ordered, the first `count` of the inbox. */
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

  /** What happens from now on is told again, not what happened meanwhile. */
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
