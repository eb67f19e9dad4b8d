import type { GuestRecord } from '../guests/record/record.js'

type AddressHolder = Pick<GuestRecord, 'uuid' | 'ipv4' | 'ipv6Addresses' | 'createdAtMs'>

interface Owner {
  /** Uuid of the guest. Empty: nobody has the address any more. */
  readonly uuid: string
  /** Time in ms since 1970 from which the address belongs to this guest, or to nobody. */
  readonly sinceMs: number
}

/** Time in ms for which an address's former owner is remembered. The kernel forgets unanswered flows earlier. */
const rememberedMs = 600_000

/** Records the owner of each address, because a late report of packets can concern a former owner of the address. */
export class AddressOwners {
  #owners: ReadonlyMap<string, Owner> = new Map()
  #listed: readonly AddressHolder[] | undefined

  /**
   * Updates the owners of addresses. Skips the update if `guests` is the same array as in the last call.
   * @param guests all guests; the caller passes the same array until a guest changes
   */
  update(guests: readonly AddressHolder[], nowMs: number): void {
    if (guests === this.#listed) return
    this.#listed = guests
    const owners = new Map<string, Owner>()
    for (const [address, before] of this.#owners) {
      const sinceMs = before.uuid === '' ? before.sinceMs : nowMs
      if (sinceMs > nowMs - rememberedMs) owners.set(address, { uuid: '', sinceMs })
    }
    for (const guest of guests)
      for (const address of [guest.ipv4, ...guest.ipv6Addresses])
        owners.set(address, this.#ownedBy(guest, address, nowMs))
    this.#owners = owners
  }

  /** Returns the uuid of the guest that owns the address, if it already owned the address at `atMs` (ms since 1970). */
  findOwner(address: string, atMs: number): string | undefined {
    const owner = this.#owners.get(address)
    return owner && owner.uuid !== '' && owner.sinceMs <= atMs ? owner.uuid : undefined
  }

  #ownedBy({ uuid, createdAtMs }: AddressHolder, address: string, nowMs: number): Owner {
    const before = this.#owners.get(address)
    if (before?.uuid === uuid) return before
    return { uuid, sinceMs: before === undefined ? createdAtMs : nowMs }
  }
}
