import type { HostState } from '../host-state.js'
import type { LostMove, StoredMove } from './move-store.js'

/** Time in ms without an owner after which a guest's move counts as lost. Late reports arrive within this time. */
const graceMs = 120_000

/** Finds guests that no host owns. Their host has handed them over in a move that the store has lost. */
export class LostMoves {
  /** Time since which each guest has had no owner, in ms since 1970, by uuid. */
  readonly #since = new Map<string, number>()

  /** @returns guests that have had no owner and no stored move for a while */
  find(hosts: readonly HostState[], moves: readonly StoredMove[], nowMs: number): LostMove[] {
    const lost = findOwnerless(hosts, new Set(moves.map(({ uuid }) => uuid)))
    const uuids = new Set(lost.map(({ uuid }) => uuid))
    for (const uuid of this.#since.keys()) if (!uuids.has(uuid)) this.#since.delete(uuid)
    for (const uuid of uuids) if (!this.#since.has(uuid)) this.#since.set(uuid, nowMs)
    return lost.filter(({ uuid }) => nowMs - this.#since.get(uuid)! >= graceMs)
  }
}

/** Finds guests that no host owns. Requires that all hosts are online, because an offline host could run any guest. */
function findOwnerless(hosts: readonly HostState[], moving: ReadonlySet<string>): LostMove[] {
  if (hosts.some(({ online }) => !online)) return []
  const handedOver = hosts.flatMap((host) => [...handedOverOn(host)])
  return handedOver.filter(({ uuid }) => !moving.has(uuid) && !hosts.some((host) => isOwnedOn(host, uuid)))
}

function* handedOverOn(host: HostState): Iterable<LostMove> {
  for (const known of [host.guests, host.conflicts])
    for (const { guest } of known.values())
      if (guest.ownership?.role === 'handed_over')
        yield { ...guest.ownership, uuid: guest.uuid, hostId: host.record.id }
}

function isOwnedOn({ guests, conflicts }: HostState, uuid: string): boolean {
  const guest = guests.get(uuid)?.guest ?? conflicts.get(uuid)?.guest
  return guest !== undefined && ['owner', 'leaving'].includes(guest.ownership?.role ?? 'owner')
}
