import { hkdfSync } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { StoreClient } from '../store/store.js'
import type { KeyMarker } from './key-store.js'

/** Time in ms for which a repeated request can read a created secret: twice the default lifetime of stored answers. */
const keepMs = 48 * 3_600_000

/** A secret that an operation created, and the id of the object that it belongs to. */
interface CreatedSecret {
  readonly id: number
  /** The secret, which the user sees only once. */
  readonly key: string
}

export interface MadeSecretsOptions {
  /** Returns the Redis key under which the secret of an operation is stored. */
  readonly nameOf: (operationId: string) => string
  /** 32 bytes from `readOrCreateKey`. */
  readonly secret: Buffer
  /** Kind of the secrets. Each kind is encrypted with a different key. */
  readonly use: string
}

/** Remembers the secrets that operations created, so that a repeated request returns the same secret. */
export class MadeSecrets {
  readonly #sealingKey: Buffer
  readonly #nameOf: MadeSecretsOptions['nameOf']

  constructor({ nameOf, secret, use }: MadeSecretsOptions) {
    this.#nameOf = nameOf
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', use, 32))
  }

  /** Returns the Redis entry that remembers a secret. Store it in the transaction that creates the object `id`. */
  marker(operationId: string, id: number, key: string, lifetimeMs = keepMs): Required<KeyMarker> {
    const name = this.#nameOf(operationId)
    const made: CreatedSecret = { id, key: seal(this.#sealingKey, key, name) }
    return { key: name, value: JSON.stringify(made), keepMs: lifetimeMs }
  }

  /** Finds the secret that an earlier attempt created, and extends its lifetime in the store. */
  async find(client: StoreClient, operationId: string): Promise<CreatedSecret | undefined> {
    const name = this.#nameOf(operationId)
    const text = await client.getEx(name, { type: 'PX', value: keepMs })
    if (text === null) return undefined
    return this.#open(text, name)
  }

  /** Returns the secret that an operation created, and forgets it. Only one of several concurrent callers gets it. */
  async take(client: StoreClient, operationId: string): Promise<CreatedSecret | undefined> {
    const name = this.#nameOf(operationId)
    const text = await client.getDel(name)
    return text === null ? undefined : this.#open(text, name)
  }

  #open(text: string, name: string): CreatedSecret {
    const { id, key } = JSON.parse(text) as CreatedSecret
    return { id, key: open(this.#sealingKey, key, name) }
  }
}
