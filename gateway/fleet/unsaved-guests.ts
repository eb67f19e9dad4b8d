interface GuestKey {
  readonly hostId: string
  readonly uuid: string
}

/** Guests whose present state must be written to the store. Guests that no longer exist are deleted from the store. */
export class UnsavedGuests {
  readonly #byHost = new Map<string, Set<string>>()

  add({ hostId, uuid }: GuestKey): void {
    const uuids = this.#byHost.get(hostId)
    if (uuids) uuids.add(uuid)
    else this.#byHost.set(hostId, new Set([uuid]))
  }

  forgetHost(hostId: string): void {
    this.#byHost.delete(hostId)
  }

  takeAll(): GuestKey[] {
    const all = [...this.#byHost].flatMap(([hostId, uuids]) => [...uuids].map((uuid) => ({ hostId, uuid })))
    this.#byHost.clear()
    return all
  }
}
