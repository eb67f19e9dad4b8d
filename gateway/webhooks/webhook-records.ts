import type { Logger } from 'pino'
import { conflict, notFound } from '../../shared/errors.js'
import { parseTargetUrl, type TargetPolicy } from '../../shared/outbound-targets.js'
import { readOwnAddresses } from '../../shared/outbound-lookup.js'
import { open, seal } from '../../shared/sealing.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import { makeSecret } from './signature.js'
import { checkEvents, everyEvent, type WebhookFields, type WebhookRecord } from './webhook-record.js'

export interface WebhookRecordsOptions {
  readonly store: Store
  /** 32 secret bytes, the same in all gateways on one store. */
  readonly secret: Buffer
  readonly policy: TargetPolicy
  readonly log: Logger
}

/** Maximum number of webhooks. It is low because each webhook has a separate queue. */
const maxWebhooks = 20

/** The webhooks of all gateways. Create the object before `store.start()`. */
export class WebhookRecords {
  readonly #document: StoredDocument<readonly WebhookRecord[]>

  constructor(private readonly options: WebhookRecordsOptions) {
    const { store, log } = options
    this.#document = new StoredDocument<readonly WebhookRecord[]>({
      store,
      name: 'webhooks',
      initial: [],
      log,
    })
  }

  /** True as soon as the webhooks were read from the store. */
  get isKnown(): boolean {
    return this.#document.value !== undefined
  }

  /** The webhooks in the order of their names. Empty until the store has been reached. */
  get known(): readonly WebhookRecord[] {
    return this.#document.value ?? []
  }

  /** @throws {BerthError} `store_unavailable` */
  list(): readonly WebhookRecord[] {
    return this.#document.current
  }

  /** @throws {BerthError} `not_found`, `store_unavailable` */
  get(id: string): WebhookRecord {
    const found = this.#document.current.find((record) => record.id === id)
    if (!found) throw notFound('webhook')
    return found
  }

  onChange(listener: () => void): void {
    this.#document.onChange(listener)
  }

  secretOf({ id, sealed }: WebhookRecord): string {
    return open(this.options.secret, sealed, aboutOf(id))
  }

  /**
   * Creates a webhook.
   * @param id id of the operation; a repeated call with it returns the same webhook
   * @throws {BerthError} `invalid_field`, `name_conflict`, `resource_exhausted`, `store_unavailable`
   */
  async create(id: string, fields: WebhookFields & { name: string; url: string }): Promise<WebhookRecord> {
    const made = {
      id,
      createdAtMs: Date.now(),
      sealed: this.#seal(id),
      events: [everyEvent],
      disabled: false,
    }
    const record = this.#checked({ ...made, ...fields, changedAtMs: made.createdAtMs })
    return this.#write(id, (before, all) => {
      if (before) return before
      if (all.length >= maxWebhooks)
        throw conflict('resource_exhausted', `at most ${maxWebhooks} webhooks are allowed: delete one first`)
      return record
    })
  }

  /**
   * Changes a webhook. Absent fields stay unchanged.
   * @param rotate true: the webhook gets a new secret
   * @throws {BerthError} as in `create`, and `not_found`
   */
  async update(id: string, fields: WebhookFields, rotate: boolean): Promise<WebhookRecord> {
    return this.#write(id, (before) => {
      if (!before) throw notFound('webhook')
      const sealed = rotate ? this.#seal(id) : before.sealed
      return this.#checked({ ...before, ...fields, sealed, changedAtMs: Date.now() })
    })
  }

  /** @throws {BerthError} `store_unavailable` */
  async remove(id: string): Promise<void> {
    await this.#document.update((all) => all.filter((record) => record.id !== id))
  }

  #checked(record: WebhookRecord): WebhookRecord {
    const url = parseTargetUrl(record.url, this.options.policy, readOwnAddresses()).href
    return { ...record, url, events: checkEvents(record.events) }
  }

  #seal(id: string): string {
    return seal(this.options.secret, makeSecret(), aboutOf(id))
  }

  async #write(
    id: string,
    plan: (before: WebhookRecord | undefined, all: readonly WebhookRecord[]) => WebhookRecord,
  ): Promise<WebhookRecord> {
    const after = await this.#document.update((all) => {
      const record = plan(
        all.find((one) => one.id === id),
        all,
      )
      const others = all.filter((one) => one.id !== id)
      if (others.some(({ name }) => name.toLowerCase() === record.name.toLowerCase()))
        throw conflict('name_conflict', `a webhook named ${record.name} already exists`)
      return [...others, record].sort((a, b) => (a.name < b.name ? -1 : 1))
    })
    return after.find((one) => one.id === id)!
  }
}

function aboutOf(id: string): string {
  return `webhook:${id}`
}
