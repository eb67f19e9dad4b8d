import { conflict, notFound } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { parseSshPublicKey } from '../../shared/ssh-public-key.js'
import type { Store } from '../store/store.js'
import type { AccountStore } from './account-store.js'

/** An SSH public key that an account has stored under a name. */
export interface SshKey {
  /** The id is unique among the keys of the account. The id of a deleted key is never used again. */
  readonly id: number
  /** The name is unique among the keys of the account, ignoring case. */
  readonly name: string
  /** Public key in the format of OpenSSH, checked by `parseSshPublicKey`. */
  readonly publicKey: string
  readonly createdAtMs: number
}

interface SshKeyRing {
  readonly nextId: number
  readonly keys: readonly SshKey[]
}

export const maxSshKeys = 50

/** SSH public keys that accounts store for new guests. They are deleted together with the account. */
export class SshKeys {
  constructor(
    private readonly store: Store,
    private readonly accounts: Pick<AccountStore, 'recordKey' | 'sshKeysKey'>,
  ) {}

  /** Lists the keys of an account in the order of their creation. @throws {BerthError} `store_unavailable` */
  async list(accountId: number): Promise<readonly SshKey[]> {
    const key = this.accounts.sshKeysKey(accountId)
    return parseRing(await this.store.run('list SSH keys', (client) => client.get(key))).keys
  }

  /**
   * Stores a key. If the account has the same key under the same name, returns that key.
   * @throws {BerthError} `invalid_field`, `name_conflict`, `ssh_key_limit_reached`, `not_found` if the account was
   * deleted, `store_unavailable`
   */
  async add(accountId: number, { name, publicKey }: Pick<SshKey, 'name' | 'publicKey'>): Promise<SshKey> {
    const checked = { name, publicKey: parseSshPublicKey(publicKey, 'public_key'), createdAtMs: steadyClock.now() }
    return this.#change(accountId, (ring) => {
      const { nextId, keys } = ring
      const same = keys.find((one) => one.name === name && one.publicKey === checked.publicKey)
      if (same) return { ring, key: same }
      checkAddition(keys, name)
      const added = { id: nextId, ...checked }
      return { ring: { nextId: nextId + 1, keys: [...keys, added] }, key: added }
    })
  }

  /** @returns the deleted key @throws {BerthError} `not_found`, `store_unavailable` */
  async remove(accountId: number, id: number): Promise<SshKey> {
    return this.#change(accountId, ({ nextId, keys }) => {
      const key = keys.find((one) => one.id === id)
      if (key === undefined) throw notFound('SSH key')
      return { ring: { nextId, keys: keys.filter((one) => one !== key) }, key }
    })
  }

  /** Changes the keys in one transaction. The transaction fails if the account is deleted at the same time. */
  async #change(accountId: number, plan: (ring: SshKeyRing) => { ring: SshKeyRing; key: SshKey }): Promise<SshKey> {
    const [account, own] = [this.accounts.recordKey(accountId), this.accounts.sshKeysKey(accountId)]
    return this.store.transact('change SSH keys', async (client) => {
      await client.watch([account, own])
      if ((await client.exists(account)) === 0) throw notFound('account')
      const { ring, key } = plan(parseRing(await client.get(own)))
      await client.multi().set(own, JSON.stringify(ring)).exec()
      return key
    })
  }
}

function parseRing(text: string | null): SshKeyRing {
  return text === null ? { nextId: 1, keys: [] } : (JSON.parse(text) as SshKeyRing)
}

function checkAddition(keys: readonly SshKey[], name: string): void {
  if (keys.some((one) => one.name.toLowerCase() === name.toLowerCase()))
    throw conflict('name_conflict', `the account already has an SSH key named ${name}`)
  if (keys.length >= maxSshKeys)
    throw conflict('ssh_key_limit_reached', `the account already has ${maxSshKeys} SSH keys: delete one first`)
}
