import { hkdfSync } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { StoreClient } from '../store/store.js'
import type { KeyMarker } from './key-store.js'

/** Twice as long as a request is remembered after its last attempt, see IdempotencyStore. */
const keepMs = 48 * 3_600_000

/** What an operation made. */
interface CreatedSecret {
  readonly id: number
  /** What is shown once. */
  readonly key: string
}

export interface MadeSecretsOptions {
  /** The store's name for what an operation made. */
  readonly nameOf: (operationId: string) => string
  /** 32 bytes, see AccessOptions. */
  readonly secret: Buffer
  /** What they are, so that each kind is encrypted with a key of its own. */
  readonly use: string
}

/** Remembers which operation made which secret, and the secret itself, with which a repeat is answered. */
export class MadeSecrets {
  readonly #sealingKey: Buffer
  readonly #nameOf: MadeSecretsOptions['nameOf']

  constructor({ nameOf, secret, use }: MadeSecretsOptions) {
    this.#nameOf = nameOf
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', use, 32))
  }

  /** Is stored in the transaction that stores what was made. */
  marker(operationId: string, id: number, key: string): Required<KeyMarker> {
    const name = this.#nameOf(operationId)
    const made: CreatedSecret = { id, key: seal(this.#sealingKey, key, name) }
    return { key: name, value: JSON.stringify(made), keepMs }
  }

  /** Finds what an earlier attempt made, and renews the time for which it is kept. */
  async find(client: StoreClient, operationId: string): Promise<CreatedSecret | undefined> {
    const name = this.#nameOf(operationId)
    const text = await client.getEx(name, { type: 'PX', value: keepMs })
    if (text === null) return undefined
    const { id, key } = JSON.parse(text) as CreatedSecret
    return { id, key: open(this.#sealingKey, key, name) }
  }
}
