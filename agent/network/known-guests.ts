import type { GuestNetwork } from './contract.js'

/** Networks of guests, from `attach` or the last `replace`. Leaves out detached guests that the database still has. */
export class KnownGuests {
  #guests = new Map<string, GuestNetwork>()
  readonly #detached = new Set<string>()

  find(uuid: string): GuestNetwork | undefined {
    return this.#guests.get(uuid)
  }

  list(): GuestNetwork[] {
    return [...this.#guests.values()]
  }

  attach(guest: GuestNetwork): void {
    this.#detached.delete(guest.uuid)
    this.#guests.set(guest.uuid, guest)
  }

  detach(uuid: string): void {
    this.#detached.add(uuid)
    this.#guests.delete(uuid)
  }

  /** Restores the earlier state of a guest after its attach failed. */
  putBack(uuid: string, before: GuestNetwork | undefined): void {
    if (before) this.#guests.set(uuid, before)
    else this.#guests.delete(uuid)
  }

  /** Replaces all guests by those of the agent's database. @returns these guests without the detached ones */
  replace(journaled: readonly GuestNetwork[]): readonly GuestNetwork[] {
    const uuids = new Set(journaled.map(({ uuid }) => uuid))
    for (const uuid of this.#detached) if (!uuids.has(uuid)) this.#detached.delete(uuid)
    const guests = journaled.filter(({ uuid }) => !this.#detached.has(uuid))
    this.#guests = new Map(guests.map((guest) => [guest.uuid, guest]))
    return guests
  }
}
