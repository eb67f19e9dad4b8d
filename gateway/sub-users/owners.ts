import type { AccountStore } from '../accounts/account-store.js'
import type { Store } from '../store/store.js'

/** A sub-user who may access a container. */
export interface Owner {
  readonly id: string
  readonly username: string
}

/** The sub-users of each container at one point in time. */
export interface OwnerMap {
  /** Version that changes with each change of an account. */
  readonly version: number
  of(containerUuid: string): readonly Owner[]
}

const nobody: readonly Owner[] = []
export const noOwners: OwnerMap = { version: 0, of: () => nobody }

/** Finds the sub-users of containers, cached until an account changes. Create the object before `store.start()`. */
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

  /** Drops cached data. Call it after this process has changed an account. */
  forget(): void {
    this.#changes++
    this.#known = undefined
  }

  /** Reads the sub-users of all containers. @throws {BerthError} `store_unavailable` */
  async read(): Promise<OwnerMap> {
    if (this.#known) return this.#known
    const version = this.#changes
    const read = await this.#load(version + 1)
    // If accounts have changed during the read, the result is possibly outdated and is not cached.
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
