import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { Coalescer } from '../../shared/async/coalescer.js'
import type { Describe, EventContent } from '../events/event.js'
import type { FleetView } from '../fleet/contract.js'
import type { FleetChange } from '../fleet/fleet-changes.js'
import { DeliveryQueue, type QueuedDelivery } from './delivery-queue.js'
import { missedNews, newestRevision, newsOf, type News } from './fleet-news.js'
import { Outbox, type OutboxParts } from './outbox.js'
import { bodyOf, deliveryOf, droppedType, hasRoom, hasRoomFor } from './plan-deliveries.js'
import { wants, type WebhookRecord } from './webhook-record.js'
import { steadyClock } from '../../shared/steady-clock.js'

export interface DelivererParts extends Pick<OutboxParts, 'retries' | 'send'> {
  readonly view: FleetView
  readonly describe: Describe
  readonly queue: DeliveryQueue
  readonly records: () => readonly WebhookRecord[]
  readonly log: Logger
}

/** Maximum number of waiting changes. If there are more, all are dropped, and all hosts are searched for changes. */
const maxNews = 20_000
const retryMs = 500

/**
 * Creates and sends deliveries, only at the gateway that holds the lease. New deliveries and `Cursors` are stored in
 * one transaction, so that the next holder of the lease can continue.
 */
export class Deliverer {
  readonly #outboxes = new Map<string, Outbox>()
  #news: News[] = []
  #cursors = new Map<string, number>()
  /** Ids of hosts whose state must be searched for missed changes. */
  readonly #behind = new Set<string>()
  #number = 0
  #loaded = false
  readonly #rounds = new Coalescer(() => this.#round())
  #stopped = false
  readonly #unlisten: () => void

  /** @param news changes that the previous deliverer of this process returned from `stop` */
  constructor(
    private readonly parts: DelivererParts,
    news: readonly News[] = [],
  ) {
    this.#news.push(...news)
    this.#unlisten = parts.view.changes.listen((change, hostId) => this.#take(change, hostId))
    for (const { id } of parts.view.hosts()) this.#behind.add(id)
    this.work()
  }

  /** Starts a round: queues deliveries for changes, queues manual deliveries, and applies changes of webhooks. */
  work(): void {
    if (!this.#stopped) void this.#rounds.run()
  }

  /** @returns changes that have no revision and were not queued; the next deliverer cannot find them in the view */
  async stop(): Promise<News[]> {
    this.#stopped = true
    for (const outbox of this.#outboxes.values()) outbox.stop()
    await this.#rounds.settled()
    this.#unlisten()
    return this.#news.filter(({ revision }) => revision === 0)
  }

  #take(change: FleetChange, hostId: string): void {
    if (change.kind === 'usage' || this.parts.records().length === 0) return
    if (this.#news.length >= maxNews) {
      this.#news = []
      for (const { id } of this.parts.view.hosts()) this.#behind.add(id)
    }
    this.#news.push(newsOf(change, hostId))
    // The next round searches for changes of the host that this gateway missed while it did not reach the host.
    if (change.kind === 'host' && change.after?.state === 'online') this.#behind.add(hostId)
    setImmediate(() => this.work())
  }

  async #round(): Promise<void> {
    if (this.#stopped) return
    try {
      await this.#step()
    } catch (err) {
      this.parts.log.debug({ err }, 'could not queue deliveries')
      this.work()
      await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
  }

  async #step(): Promise<void> {
    if (!this.#loaded) this.#cursors = await this.parts.queue.readCursors()
    await this.#followRecords()
    this.#loaded = true
    await this.#queueManual()
    await this.#queueNews()
  }

  async #followRecords(): Promise<void> {
    const records = this.parts.records()
    await this.#dropRemoved(records)
    if (records.length === 0 && this.#cursors.size > 0) {
      await this.parts.queue.forgetCursors()
      this.#cursors.clear()
    }
    for (const { id } of records) await this.#openOutbox(id)
  }

  /** Deletes the data of removed webhooks, even if no gateway delivered at the time of their removal. */
  async #dropRemoved(records: readonly WebhookRecord[]): Promise<void> {
    const { queue } = this.parts
    const noted = this.#loaded ? [] : await queue.readRemoved()
    const gone = new Set([...this.#outboxes.keys(), ...noted])
    for (const { id } of records) gone.delete(id)
    for (const id of gone) {
      this.#outboxes.get(id)?.stop()
      await queue.remove(id)
      this.#outboxes.delete(id)
    }
  }

  async #openOutbox(id: string): Promise<void> {
    const known = this.#outboxes.get(id)
    if (known) return known.pump()
    const { queue, retries, log, send, records } = this.parts
    const waiting = await queue.loadConfirmed(id)
    const find = () => records().find((record) => record.id === id)
    const outbox = new Outbox(id, { queue, retries, log, send, find })
    if (this.#stopped) return
    for (const { number } of waiting) this.#number = Math.max(this.#number, number)
    this.#outboxes.set(id, outbox)
    outbox.add(waiting)
    // Marks hosts without a cursor, so that the next round stores their revisions and webhooks get all later changes.
    for (const { id: hostId } of this.parts.view.hosts()) if (!this.#cursors.has(hostId)) this.#behind.add(hostId)
  }

  /** True if a webhook has no `Outbox` yet (see `#followRecords`). While this is true, no deliveries are queued. */
  get #lacksOutbox(): boolean {
    return this.parts.records().some(({ id }) => !this.#outboxes.has(id))
  }

  async #queueManual(): Promise<void> {
    const entries = await this.parts.queue.readManual()
    if (entries.length === 0) return
    if (this.#lacksOutbox) return this.work()
    const made = new Map<string, QueuedDelivery[]>()
    for (const { webhookId, delivery } of entries)
      if (this.#outboxes.has(webhookId)) this.#addTo(made, webhookId, delivery)
    try {
      await this.parts.queue.queueManual(made, entries.length)
    } catch (error) {
      this.#forget()
      throw error
    }
    this.#hand(made)
    this.work()
  }

  /**
   * Forgets the queue and the stored revisions after a failed write, which the store has possibly executed. The next
   * round reads them again, so that no delivery is stored twice.
   */
  #forget(): void {
    for (const outbox of this.#outboxes.values()) outbox.stop()
    this.#outboxes.clear()
    this.#loaded = false
  }

  /** Queues deliveries for new and for missed changes. The stored revisions of hosts show the missed changes. */
  async #queueNews(): Promise<void> {
    if (this.#lacksOutbox) return this.work()
    const news = this.#news
    this.#news = []
    const behind = [...this.#behind]
    this.#behind.clear()
    if (this.#outboxes.size === 0) return
    const cursors = new Map(behind.map((hostId) => [hostId, this.#cursorOf(hostId, news)]))
    // Only hosts with a stored revision are searched for missed changes. From hosts without one, webhooks only get
    // changes from now on, and these are in `news`.
    const missed = [...cursors].flatMap(([hostId, since]) =>
      this.#cursors.has(hostId) && this.#isSeen(hostId) ? missedNews(this.parts.view, hostId, since) : [],
    )
    const fresh = [...missed, ...news]
    const made = new Map<string, QueuedDelivery[]>()
    for (const one of fresh) this.#plan(one, made, cursors)
    if (made.size === 0 && [...cursors].every(([host, at]) => this.#cursors.get(host) === at)) return
    try {
      await this.parts.queue.add(made, cursors)
    } catch (error) {
      for (const hostId of [...behind, ...news.map((one) => one.hostId)]) this.#behind.add(hostId)
      // Removals have no revision. A search for missed changes cannot find them, so the next round must get them.
      this.#news.unshift(...news.filter(({ revision }) => revision === 0))
      this.#forget()
      throw error
    }
    for (const [hostId, revision] of cursors) this.#cursors.set(hostId, revision)
    this.#hand(made)
  }

  /**
   * Returns the revision after which changes of a host are sent. If no revision is stored, only changes from now on are
   * sent. If the agent has a new journal, the stored revision can exceed all revisions of the host. In this case,
   * returns the newest revision of the host.
   */
  #cursorOf(hostId: string, news: readonly News[]): number {
    const newest = newestRevision(this.parts.view, hostId)
    const known = this.#cursors.get(hostId)
    if (known !== undefined) return this.#isSeen(hostId) ? Math.min(known, newest) : known
    const first = news.find((one) => one.hostId === hostId && one.revision > 0)
    return first ? Math.min(newest, first.revision - 1) : newest
  }

  /** True if the host has reported its state. Until then, the view has only its stored containers, and no tasks. */
  #isSeen(hostId: string): boolean {
    return (this.parts.view.findHost(hostId)?.lastSeenMs ?? 0) > 0
  }

  #plan({ hostId, change, revision }: News, made: Map<string, QueuedDelivery[]>, cursors: Map<string, number>): void {
    const known = cursors.get(hostId) ?? this.#cursors.get(hostId) ?? 0
    if (revision > 0 && revision <= known) return // the change was already sent
    if (revision > 0) cursors.set(hostId, revision)
    for (const content of this.parts.describe(change, hostId)) this.#planContent(content, made)
  }

  #planContent(content: EventContent, made: Map<string, QueuedDelivery[]>): void {
    const takers = this.parts.records().filter((record) => wants(record, content.type))
    if (takers.length === 0) return
    const names = { eventId: `evt_${randomUUID()}`, nowMs: steadyClock.now() }
    const body = bodyOf(content, names)
    for (const { id } of takers) this.#addTo(made, id, deliveryOf(content, body, { ...names, id: randomUUID() }))
  }

  #addTo(made: Map<string, QueuedDelivery[]>, webhookId: string, delivery: Omit<QueuedDelivery, 'number'>): void {
    const outbox = this.#outboxes.get(webhookId)
    if (!outbox) return
    const list = made.get(webhookId) ?? []
    made.set(webhookId, list)
    const { key, guestUuid } = delivery
    const own = outbox.waitingOf(key) + list.filter((one) => one.key === key).length
    const isFull = guestUuid === '' ? !hasRoom(outbox.size + list.length) : !hasRoomFor(outbox.size + list.length, own)
    if (!isFull) return void list.push({ ...delivery, number: ++this.#number })
    if (outbox.hasNotice || list.some(({ type }) => type === droppedType)) return
    list.push({ ...droppedNotice(), number: ++this.#number })
  }

  #hand(made: ReadonlyMap<string, readonly QueuedDelivery[]>): void {
    for (const [id, deliveries] of made) this.#outboxes.get(id)?.add(deliveries)
  }
}

/** Notice that events were dropped, so that the receiver must read the present state again. */
function droppedNotice(): Omit<QueuedDelivery, 'number'> {
  const about = { type: droppedType, hostId: '', guestUuid: '', data: '{}' }
  const names = { id: randomUUID(), eventId: `evt_${randomUUID()}`, nowMs: steadyClock.now() }
  return deliveryOf(about, bodyOf(about, names), names)
}
