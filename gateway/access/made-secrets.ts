import { hkdfSync } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { StoreClient } from '../store/store.js'
import type { KeyMarker } from './key-store.js'

/** Twice as long as a request is remembered after its last attempt, see IdempotencyStore. */
const keepMs = 48 * 3_600_000

/** The object that an operation created. */
interface CreatedSecret {
  readonly id: number
  /** The secret, which is shown once. */
  readonly key: string
}

export interface MadeSecretsOptions {
  /** The store's name for the result of an operation. */
  readonly nameOf: (operationId: string) => string
  /** 32 bytes, see AccessOptions. */
  readonly secret: Buffer
  /** Kind of the secrets, so that each kind is encrypted with a separate key. */
  readonly use: string
}

/** Remembers which operation created which secret, and the secret itself for repetitions of the request. */
export class MadeSecrets {
  readonly #sealingKey: Buffer
  readonly #nameOf: MadeSecretsOptions['nameOf']

  constructor({ nameOf, secret, use }: MadeSecretsOptions) {
    this.#nameOf = nameOf
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', use, 32))
  }

  /** Call it in the transaction that stores the object. */
  marker(operationId: string, id: number, key: string): Required<KeyMarker> {
    const name = this.#nameOf(operationId)
    const made: CreatedSecret = { id, key: seal(this.#sealingKey, key, name) }
    return { key: name, value: JSON.stringify(made), keepMs }
  }

  /** Finds the result of an earlier attempt, and renews its retention. */
  async find(client: StoreClient, operationId: string): Promise<CreatedSecret | undefined> {
    const name = this.#nameOf(operationId)
    const text = await client.getEx(name, { type: 'PX', value: keepMs })
    if (text === null) return undefined
    const { id, key } = JSON.parse(text) as CreatedSecret
    return { id, key: open(this.#sealingKey, key, name) }
  }
}
