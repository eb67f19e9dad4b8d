import { noNeighbors, type Neighbors, type PlacedGuest } from './plan-rules.js'

type GuestLocation = Pick<PlacedGuest, 'hostId' | 'rules'>

/** Counts guests by host and by names in their rules, so that a plan of many guests needs no search for neighbors. */
export class NeighborIndex {
  readonly #spread = new NameCounts()
  readonly #together = new NameCounts()

  add(guest: GuestLocation): void {
    this.#count(guest, 1)
  }

  remove(guest: GuestLocation): void {
    this.#count(guest, -1)
  }

  #count({ hostId, rules }: GuestLocation, by: 1 | -1): void {
    this.#spread.count(rules.spread, hostId, by)
    this.#together.count(rules.together, hostId, by)
  }

  /**
   * Finds the hosts that the rules of an added guest name. `together`: the hosts with the largest number of guests that
   * must stay together with this guest, or only the guest's own host if it is one of these hosts.
   */
  neighborsOf({ hostId, rules }: GuestLocation): Neighbors {
    const rivals = this.#spread.of(rules.spread)
    return {
      ...noNeighbors,
      isApartFrom: (id) => (rivals.get(id) ?? 0) > (id === hostId ? 1 : 0),
      together: fullest(this.#together.of(rules.together), hostId),
    }
  }
}

type Counts = ReadonlyMap<string, number>

/** Returns the hosts with the most partners of a guest. The guest itself is in `counts`, and is subtracted. */
function fullest(counts: Counts, presentId: string): Counts {
  const present = (counts.get(presentId) ?? 1) - 1
  let most = present
  for (const [id, count] of counts) if (id !== presentId && count > most) most = count
  if (most === 0) return noNeighbors.together
  if (present === most) return new Map([[presentId, most]])
  return new Map([...counts].filter(([id, count]) => id !== presentId && count === most))
}

class NameCounts {
  /** By name in the rules: for each host, the number of its guests with this name. */
  readonly #byName = new Map<string, Map<string, number>>()

  of(name: string): Counts {
    return this.#byName.get(name) ?? noNeighbors.together
  }

  count(name: string, hostId: string, by: 1 | -1): void {
    if (name === '') return
    const counts = this.#byName.get(name) ?? new Map<string, number>()
    this.#byName.set(name, counts)
    const count = (counts.get(hostId) ?? 0) + by
    if (count === 0) counts.delete(hostId)
    else counts.set(hostId, count)
  }
}
