import { createHmac, hkdfSync, randomUUID } from 'node:crypto'
import { BerthError, conflict } from '../../shared/errors.js'
import { open, seal } from '../../shared/sealing.js'
import type { GatewayInstance } from '../store/instance.js'
import type { Store } from '../store/store.js'
import type { Idempotency, IdempotencyClaim, IdempotentRequest, StoredAnswer } from './contract.js'

const keepMs = 24 * 3_600_000
/** A process that took a request over and died before it said so blocks the next one this long at most. */
const takeoverMs = 30_000

/** One Idempotency-Key as it is stored. */
interface IdempotencyRecord {
  readonly operationId: string
  /** Of method, path, query and body; keyed, since a body may hold a password somebody could guess. */
  readonly fingerprint: string
  readonly attempt: number
  readonly state: 'running' | 'open' | 'done'
  /** The process that runs it. */
  readonly owner: string
  /** A sealed StoredAnswer; it may hold a password or a key. */
  readonly answer?: string
}

type Begun = { claim: IdempotencyClaim } | { replay: StoredAnswer; operationId: string }

/**
 * Remembers POST requests that carry an Idempotency-Key, for 24 hours and per caller. The record is durable
 * before the request runs, so that a repeat after a crash runs with the same operation id.
 */
export class IdempotencyStore implements Idempotency {
  readonly #running = new Map<string, IdempotencyRecord>()
  /** Those who ask for the same key at once ask one after another. */
  readonly #turns = new Map<string, Promise<unknown>>()
  readonly #sealingKey: Buffer
  readonly #digestKey: Buffer

  constructor(
    private readonly store: Store,
    private readonly instance: GatewayInstance,
    secret: Buffer,
  ) {
    const derive = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `idempotency ${use}`, 32))
    this.#sealingKey = derive('sealing')
    this.#digestKey = derive('fingerprint')
  }

  async begin(request: IdempotentRequest): Promise<Begun> {
    const id = this.store.key('idempotency', request.caller.ref, this.#digest(request.key))
    const turn = (this.#turns.get(id) ?? Promise.resolve()).then(
      () => this.#decide(id, request),
      () => this.#decide(id, request),
    )
    this.#turns.set(id, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(id) === turn) this.#turns.delete(id)
    }
  }

  async #decide(id: string, request: IdempotentRequest): Promise<Begun> {
    const fingerprint = this.#digest(request.fingerprint)
    const fresh = this.#startedRecord({ operationId: randomUUID(), fingerprint, attempt: 1 })
    const found = await this.#insert(id, fresh)
    if (!found) return this.#claim(id, fresh)
    if (found.fingerprint !== fingerprint)
      throw new BerthError(
        'conflict',
        'idempotency_conflict',
        'this Idempotency-Key was used for another request',
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

  /** What ended here is no longer running here, even when the store cannot be told. */
  async #settle(claim: IdempotencyClaim, end: Pick<IdempotencyRecord, 'state' | 'answer'>): Promise<void> {
    const record = this.#running.get(claim.id)
    if (!record) return
    this.#running.delete(claim.id)
    await this.#write(claim.id, { ...record, ...end })
  }

  #claim(id: string, record: IdempotencyRecord): Begun {
    this.#running.set(id, record)
    return { claim: { id, operationId: record.operationId } }
  }

  /** An attempt that ended without an answer, or whose process is gone, is followed by exactly one other. */
  async #takeOver(id: string, found: IdempotencyRecord): Promise<Begun> {
    if (found.state !== 'open' && (await this.#isRunning(id, found.owner))) throw stillRunning()
    const next = this.#startedRecord({ ...found, attempt: found.attempt + 1 })
    const lock = `${id}:${next.attempt}`
    const won = await this.store.run('take over a request', (client) =>
      client.set(lock, this.instance.id, { condition: 'NX', expiration: { type: 'PX', value: takeoverMs } }),
    )
    if (won === null || (await this.#read(id))?.attempt !== found.attempt) throw stillRunning()
    await this.#write(id, next)
    return this.#claim(id, next)
  }

  async #isRunning(id: string, owner: string): Promise<boolean> {
    return owner === this.instance.id ? this.#running.has(id) : this.instance.isAlive(owner)
  }

  #startedRecord(
    from: Pick<IdempotencyRecord, 'operationId' | 'fingerprint' | 'attempt'>,
  ): IdempotencyRecord {
    const { operationId, fingerprint, attempt } = from
    return { operationId, fingerprint, attempt, state: 'running', owner: this.instance.id }
  }

  /** @returns the record that was there before, which stays */
  async #insert(id: string, record: IdempotencyRecord): Promise<IdempotencyRecord | undefined> {
    const before = await this.store.run('remember a request', (client) =>
      client.set(id, JSON.stringify(record), {
        condition: 'NX',
        GET: true,
        expiration: { type: 'PX', value: keepMs },
      }),
    )
    return before === null ? undefined : (JSON.parse(before) as IdempotencyRecord)
  }

  async #read(id: string): Promise<IdempotencyRecord | undefined> {
    const text = await this.store.run('read a request', (client) => client.get(id))
    return text === null ? undefined : (JSON.parse(text) as IdempotencyRecord)
  }

  async #write(id: string, record: IdempotencyRecord): Promise<void> {
    await this.store.run('remember a request', (client) =>
      client.set(id, JSON.stringify(record), { expiration: { type: 'PX', value: keepMs } }),
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
