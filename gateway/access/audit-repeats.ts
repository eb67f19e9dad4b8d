import { hash } from 'node:crypto'
import type { Store } from '../store/store.js'
import type { AuditOutcome } from './contract.js'

/** Time in ms for which similar failures of a caller share one audit entry. */
export const repeatMs = 3_600_000
/**
 * Number of different failures of a caller that get separate audit entries within `repeatMs`. Later failures share an
 * entry if action and code are the same, even if other details differ.
 */
const ownRows = 100

/** The properties of a failed action by which repetitions of this failure are recognized. */
export interface RepeatedFailure extends Pick<AuditOutcome, 'target' | 'detail' | 'containerUuid'> {
  readonly by: string
  readonly action: string
  readonly address: string
}

/** An audit entry that counts repeated failures. The value of `key` in the store is the entry's id. */
export interface Counting {
  readonly entryId: string
  readonly key: string
}

/** Finds the entry that counts a failure, so that the failures of one caller need few entries. */
export class AuditRepeats {
  constructor(private readonly store: Store) {}

  /** @returns an earlier entry for similar failures, or else the entry `id` */
  async find(id: string, failure: RepeatedFailure): Promise<Counting> {
    const exact = this.#key(exactKey(failure))
    const earlier = await this.store.run('write an audit entry', (client) => client.get(exact))
    if (earlier !== null) return { entryId: earlier, key: exact }
    // After `ownRows` different failures of a caller, only action and code distinguish further failures. A flood of
    // failures therefore creates few Redis keys.
    const mayBeOwn = (await this.#countRow(failure.by)) <= ownRows
    return this.#claim(mayBeOwn ? exact : this.#key(alikeKey(failure)), id)
  }

  /** Makes the entry `id` count further failures with this `key`, because the former counting entry was removed. */
  async restart(key: string, id: string): Promise<void> {
    const options = { expiration: { type: 'PX', value: repeatMs } } as const
    await this.store.run('write an audit entry', (client) => client.set(key, id, options))
  }

  async #claim(key: string, id: string): Promise<Counting> {
    const options = { condition: 'NX', GET: true, expiration: { type: 'PX', value: repeatMs } } as const
    const found = await this.store.run('write an audit entry', (client) => client.set(key, id, options))
    return { entryId: found ?? id, key }
  }

  async #countRow(by: string): Promise<number> {
    const key = this.store.key('audit-failures', by)
    return this.store.run('write an audit entry', async (client) => {
      const [count] = (await client.multi().incr(key).pExpire(key, repeatMs, 'NX').exec()) as unknown[]
      return Number(count)
    })
  }

  /** Returns the Redis key under which the id of the counting entry for such failures is stored. */
  #key(parts: readonly string[]): string {
    return this.store.key('audit-recent', hash('sha256', JSON.stringify(parts), 'base64url'))
  }
}

function codeOf(detail: string): string {
  return detail.split(':', 1)[0] ?? ''
}

function exactKey({ by, action, address, target, detail, containerUuid = '' }: RepeatedFailure): string[] {
  return ['exact', by, action, codeOf(detail), address, target, containerUuid]
}

function alikeKey({ by, action, detail }: RepeatedFailure): string[] {
  return ['alike', by, action, codeOf(detail)]
}
