import { hash } from 'node:crypto'
import type { Store } from '../store/store.js'
import type { AuditOutcome } from './contract.js'

/** How long a caller's failures that are alike are counted in one entry. */
export const repeatMs = 3_600_000
/** Failures of a caller that get entries of their own in that time; of others only action and code must be alike. */
const ownRows = 100

/** What a failure is about. */
export interface Failure extends Pick<AuditOutcome, 'target' | 'detail' | 'containerUuid'> {
  readonly by: string
  readonly action: string
  readonly address: string
}

/** The entry that counts a failure, and the name under which it was found. */
export interface Counting {
  readonly entryId: string
  readonly key: string
}

/** Finds the entry in which a failure is counted, so that failures of one caller are few entries. */
export class AuditRepeats {
  constructor(private readonly store: Store) {}

  /** @returns the entry that failures of this kind are counted in: an earlier one, or else this one */
  async find(id: string, failure: Failure): Promise<Counting> {
    const exact = this.#key(exactKey(failure))
    const earlier = await this.store.run('write an audit entry', (client) => client.get(exact))
    if (earlier !== null) return { entryId: earlier, key: exact }
    // Names of failures that only resemble one another are few, so that a flood of them takes no memory either.
    const mayBeOwn = (await this.#countRow(failure.by)) <= ownRows
    return this.#claim(mayBeOwn ? exact : this.#key(alikeKey(failure)), id)
  }

  /** Has later failures counted in this entry, where the earlier one is gone. */
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

  /** String: the entry that is counted in. */
  #key(parts: readonly string[]): string {
    return this.store.key('audit-recent', hash('sha256', JSON.stringify(parts), 'base64url'))
  }
}

function codeOf(detail: string): string {
  return detail.split(':', 1)[0] ?? ''
}

function exactKey({ by, action, address, target, detail, containerUuid = '' }: Failure): string[] {
  return ['exact', by, action, codeOf(detail), address, target, containerUuid]
}

function alikeKey({ by, action, detail }: Failure): string[] {
  return ['alike', by, action, codeOf(detail)]
}
