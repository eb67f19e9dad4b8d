import type { AccountStore } from '../accounts/account-store.js'
import type { Store } from '../store/store.js'

/** A sub-user that has a container. */
export interface Owner {
  readonly id: string
  readonly username: string
}

/** Which sub-users have which containers, at one moment. */
export interface OwnerMap {
  /** Another one after each change. */
  readonly version: number
  of(containerUuid: string): readonly Owner[]
}

const nobody: readonly Owner[] = []
export const noOwners: OwnerMap = { version: 0, of: () => nobody }

/** Owners of all containers, kept in memory until an account changes. Make it before `store.start()`. */
export class Owners {
  #known: OwnerMap | undefined
  #changes = 0

  constructor(
    store: Store,
    private readonly accounts: Pick<AccountStore, 'list'>,
  ) {
    store.onInvalidate(store.key('account-version'), () => this.forget())
    store.on('down', () => this.forget())
  }

  /** Call it after a change of one's own. */
  forget(): void {
    this.#changes++
    this.#known = undefined
  }

  /** @throws {BerthError} `store_unavailable` */
  async read(): Promise<OwnerMap> {
    if (this.#known) return this.#known
    const version = this.#changes
    const read = await this.#load(version + 1)
    // Accounts that changed meanwhile may or may not be in it.
    if (version === this.#changes) this.#known = read
    return read
  }

  async #load(version: number): Promise<OwnerMap> {
    const owners = new Map<string, Owner[]>()
    for (const { id, username, containerUuids } of await this.accounts.list('sub_user'))
      for (const uuid of containerUuids) {
        const known = owners.get(uuid) ?? []
        owners.set(uuid, [...known, { id: String(id), username }])
      }
    return { version, of: (uuid) => owners.get(uuid) ?? nobody }
  }
}
