import type { GuestNetwork } from './contract.js'

/** Guests whose networks must exist. A detached guest is left out, even while the journal still has it. */
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

  /** Replaces the list by the guests in the journal, except detached guests. @returns the new list */
  replace(journaled: readonly GuestNetwork[]): readonly GuestNetwork[] {
    const uuids = new Set(journaled.map(({ uuid }) => uuid))
    for (const uuid of this.#detached) if (!uuids.has(uuid)) this.#detached.delete(uuid)
    const guests = journaled.filter(({ uuid }) => !this.#detached.has(uuid))
    this.#guests = new Map(guests.map((guest) => [guest.uuid, guest]))
    return guests
  }
}
