import { createHmac, hkdfSync, randomUUID } from 'node:crypto'
import { KeyedMutex } from '../../shared/async/keyed-mutex.js'
import { BerthError, conflict } from '../../shared/errors.js'
import { open, seal } from '../../shared/sealing.js'
import type { GatewayInstance } from '../store/instance.js'
import type { Store } from '../store/store.js'
import { IdempotencyAges } from './idempotency-ages.js'
import type { IdempotencyRecord } from './idempotency-record.js'
import { IdempotencyReopener } from './idempotency-reopener.js'
import type { Principal } from './principal.js'
import type { Idempotency, IdempotencyClaim, IdempotentRequest, StoredAnswer } from './contract.js'

const hourMs = 3_600_000
/** Time in ms for which a takeover blocks other attempts, even if the process dies during the takeover. */
const takeoverMs = 30_000

type BeginResult = { claim: IdempotencyClaim } | { replay: StoredAnswer; operationId: string }

/**
 * Stores a record of each POST request with an Idempotency-Key for some hours. The record is durable before the request
 * runs. A repetition after a crash therefore runs with the same operation id.
 */
export class IdempotencyStore implements Idempotency {
  readonly #running = new Map<string, IdempotencyRecord>()
  /** Serializes requests with the same Idempotency-Key. */
  readonly #mutex = new KeyedMutex()
  readonly #sealingKey: Buffer
  readonly #digestKey: Buffer
  readonly #keepMs: number
  readonly #ages: IdempotencyAges
  readonly #reopener: IdempotencyReopener

  constructor(
    private readonly store: Store,
    private readonly instance: GatewayInstance,
    secret: Buffer,
    keepHours = 24,
  ) {
    this.#keepMs = keepHours * hourMs
    this.#ages = new IdempotencyAges(store)
    this.#reopener = new IdempotencyReopener(store)
    const derive = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `idempotency ${use}`, 32))
    this.#sealingKey = derive('sealing')
    this.#digestKey = derive('fingerprint')
  }

  async begin(request: IdempotentRequest): Promise<BeginResult> {
    const id = this.store.key('idempotency', request.caller.ref, this.#digest(request.key))
    return this.#mutex.run(id, () => this.#decide(id, request))
  }

  async #decide(id: string, request: IdempotentRequest): Promise<BeginResult> {
    const fingerprint = this.#digest(request.fingerprint)
    const fresh = this.#startedRecord({ operationId: randomUUID(), fingerprint, attempt: 1 })
    const insert = () => this.#insert(id, fresh, request.caller)
    // If the store is not ready, `insert` throws before it writes a record, so no record has to be reopened.
    const found = await (this.store.ready() ? this.#orReopen(id, fresh, insert) : insert())
    if (!found) return this.#claim(id, fresh)
    if (found.fingerprint !== fingerprint)
      throw new BerthError(
        'conflict',
        'idempotency_conflict',
        'this Idempotency-Key was already used for a different request: use a new key',
      )
    if (found.state === 'done' && found.answer !== undefined)
      return { replay: this.#openAnswer(id, found.answer), operationId: found.operationId }
    return this.#takeOver(id, found)
  }

  async finish(claim: IdempotencyClaim, answer: StoredAnswer): Promise<void> {
    const sealed = seal(this.#sealingKey, JSON.stringify(answer), claim.id)
    await this.#settle(claim, { state: 'done', answer: sealed })
  }

  async release(claim: IdempotencyClaim): Promise<void> {
    await this.#settle(claim, { state: 'open' })
  }

  /** Stores the end of a request, and its answer, in the request's record. */
  async #settle(claim: IdempotencyClaim, end: Pick<IdempotencyRecord, 'state' | 'answer'>): Promise<void> {
    const record = this.#running.get(claim.id)
    if (!record) return
    this.#running.delete(claim.id)
    await this.#orReopen(claim.id, record, () => this.#write(claim.id, { ...record, ...end }))
  }

  /** Runs a write. After a failed write, the store can show an ended request as running. `#reopener` corrects this. */
  async #orReopen<T>(id: string, record: IdempotencyRecord, write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      this.#reopener.add(id, record)
      throw error
    }
  }

  #claim(id: string, record: IdempotencyRecord): BeginResult {
    this.#running.set(id, record)
    return { claim: { id, operationId: record.operationId } }
  }

  /** Starts a new attempt if the last one stored no answer or its process died. Only one concurrent call succeeds. */
  async #takeOver(id: string, found: IdempotencyRecord): Promise<BeginResult> {
    if (found.state !== 'open' && (await this.#isRunning(id, found.owner))) throw stillRunning()
    const next = this.#startedRecord({ ...found, attempt: found.attempt + 1 })
    const lock = `${id}:${next.attempt}`
    const won = await this.store.run('continue an interrupted request', (client) =>
      client.set(lock, this.instance.id, { condition: 'NX', expiration: { type: 'PX', value: takeoverMs } }),
    )
    if (won === null || (await this.#read(id))?.attempt !== found.attempt) throw stillRunning()
    await this.#orReopen(id, next, () => this.#write(id, next))
    return this.#claim(id, next)
  }

  async #isRunning(id: string, owner: string): Promise<boolean> {
    return owner === this.instance.id ? this.#running.has(id) : this.instance.isAlive(owner)
  }

  #startedRecord(from: Pick<IdempotencyRecord, 'operationId' | 'fingerprint' | 'attempt'>): IdempotencyRecord {
    const { operationId, fingerprint, attempt } = from
    return { operationId, fingerprint, attempt, state: 'running', owner: this.instance.id }
  }

  /** Stores a record, unless it exists. @returns the existing record, unchanged */
  async #insert(id: string, record: IdempotencyRecord, caller: Principal): Promise<IdempotencyRecord | undefined> {
    const before = await this.store.run('store the record of a request', async (client) => {
      const expiration = { type: 'PX', value: this.#keepMs } as const
      // Both commands are sent together, so that Redis syncs its append-only file only once.
      const [found] = await Promise.all([
        client.set(id, JSON.stringify(record), { condition: 'NX', GET: true, expiration }),
        this.#ages.note(client, caller, id),
      ])
      return found
    })
    return before === null ? undefined : (JSON.parse(before) as IdempotencyRecord)
  }

  /**
   * Removes the oldest records of the callers with the most records, until at most `keep` records are left. Records of
   * requests that run in this process are not removed.
   * @throws {BerthError} `store_unavailable`
   */
  async trim(keep: number): Promise<void> {
    await this.store.run('remove old records of requests', async (client) => {
      const drop = async (ids: string[]): Promise<void> => {
        const ended = ids.filter((id) => !this.#running.has(id))
        if (ended.length > 0) await client.del(ended)
      }
      await this.#ages.trim(client, { keep, keepMs: this.#keepMs, drop })
    })
  }

  async #read(id: string): Promise<IdempotencyRecord | undefined> {
    const text = await this.store.run('read the record of a request', (client) => client.get(id))
    return text === null ? undefined : (JSON.parse(text) as IdempotencyRecord)
  }

  async #write(id: string, record: IdempotencyRecord): Promise<void> {
    await this.store.run('store the record of a request', (client) =>
      client.set(id, JSON.stringify(record), { expiration: { type: 'PX', value: this.#keepMs } }),
    )
  }

  #openAnswer(id: string, sealed: string): StoredAnswer {
    return JSON.parse(open(this.#sealingKey, sealed, id)) as StoredAnswer
  }

  #digest(text: string): string {
    return createHmac('sha256', this.#digestKey).update(text).digest('base64url')
  }
}

function stillRunning(): BerthError {
  return conflict('task_running', 'the first request with this Idempotency-Key is still running')
}
