import { hkdfSync } from 'node:crypto'
import { open, seal } from '../../shared/sealing.js'
import type { StoreClient } from '../store/store.js'
import type { KeyNames, KeyMarker } from './key-store.js'

/** Twice as long as a request is remembered after its last attempt, see IdempotencyStore. */
const keepMs = 48 * 3_600_000

/** What an operation made, as it is stored. */
interface MadeKey {
  readonly id: number
  /** Sealed. */
  readonly key: string
}

/** Which operation made which API key, the key itself included: a repeat has to answer with it. */
export class MadeKeys {
  readonly #sealingKey: Buffer

  constructor(
    private readonly names: KeyNames,
    secret: Buffer,
  ) {
    this.#sealingKey = Buffer.from(hkdfSync('sha256', secret, '', 'made API keys', 32))
  }

  /** For `insertKey`. */
  marker(operationId: string, id: number, key: string): KeyMarker {
    const name = this.names.operation(operationId)
    const made: MadeKey = { id, key: seal(this.#sealingKey, key, name) }
    return { key: name, value: JSON.stringify(made), keepMs }
  }

  /** What an earlier attempt made; from now it is kept as long again. */
  async find(client: StoreClient, operationId: string): Promise<{ id: number; key: string } | undefined> {
    const name = this.names.operation(operationId)
    const text = await client.getEx(name, { type: 'PX', value: keepMs })
    if (text === null) return undefined
    const { id, key } = JSON.parse(text) as MadeKey
    return { id, key: open(this.#sealingKey, key, name) }
  }
}
