import type { Logger } from 'pino'
import { BerthError, describeError } from '../../../shared/errors.js'
import type { GuestOwners } from '../placement/guest-owners.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import type { StoredMove } from './move-store.js'

export interface AnnouncerOptions {
  readonly view: FleetState
  readonly watched: Pick<WatchedHosts, 'agent' | 'isRemoved'>
  readonly owners: Pick<GuestOwners, 'check'>
  readonly log: Logger
  readonly reached: (hostId: string, revision: number) => Promise<void>
}

interface ReportedResult {
  readonly hostId: string
  readonly revision: number
}

/** Reports to hosts which host owns a guest. Each call can be repeated, because hosts ignore what they already know. */
export class Announcer {
  constructor(private readonly options: AnnouncerOptions) {}

  /** @returns false if the owner (a host) was removed from the fleet, or does not have the guest */
  async appointOwner({ uuid, decided }: StoredMove): Promise<boolean> {
    const { ownerId, generation } = decided!
    if (this.options.watched.isRemoved(ownerId)) return false
    const agent = this.options.watched.agent(ownerId)
    try {
      const { revision } = await agent.moves.appointOwner({ uuid, generation, isOwner: true })
      await this.options.reached(ownerId, revision)
    } catch (error) {
      if (error instanceof BerthError && error.code === 'not_found') return false
      throw error
    }
    await this.#showOn(ownerId, uuid)
    return true
  }

  /** Shows the guest on its new host in the view, even while the former host still reports it. */
  async #showOn(hostId: string, uuid: string): Promise<void> {
    const { view, owners } = this.options
    for (const other of view.states()) {
      const known = other.record.id === hostId ? undefined : other.guests.get(uuid)?.guest
      if (known) await owners.check(other, [known])
    }
  }

  /** @returns the revisions with which these hosts report the result */
  async dismissOther(move: StoredMove): Promise<ReportedResult[]> {
    const { watched } = this.options
    const dismissal = { uuid: move.uuid, generation: move.decided!.generation, isOwner: false }
    const results: ReportedResult[] = []
    for (const hostId of this.#othersOf(move)) {
      if (watched.isRemoved(hostId)) continue
      const { revision } = await watched.agent(hostId).moves.appointOwner(dismissal)
      results.push({ hostId, revision })
    }
    return results
  }

  /** Returns the move's host that is not the owner. If the target is not known, returns all hosts except the owner. */
  #othersOf({ decided, fromHostId, toHostId }: StoredMove): string[] {
    const { ownerId } = decided!
    if (toHostId !== '') return [ownerId === fromHostId ? toHostId : fromHostId]
    return [...this.options.view.states()].map(({ record }) => record.id).filter((id) => id !== ownerId)
  }

  /** Reports to a host that other hosts own these guests, so that the host stops its old copies. */
  async fence(hostId: string, copies: [string, number][], moves: readonly StoredMove[]): Promise<void> {
    const { log } = this.options
    for (const [uuid, generation] of copies) {
      if (isMovingAway(moves, uuid, hostId)) continue
      try {
        await this.options.watched
          .agent(hostId)
          .moves.appointOwner({ uuid, generation, isOwner: false, keepCopy: true })
      } catch (error) {
        log.debug({ guest: uuid, reason: describeError(error) }, 'could not stop an old copy of a container')
      }
    }
  }
}

/** True if the guest is moving away from this host. The host deletes its copy only when the move ends. */
export function isMovingAway(
  moves: readonly Pick<StoredMove, 'uuid' | 'fromHostId'>[],
  uuid: string,
  hostId: string,
): boolean {
  return moves.some((move) => move.uuid === uuid && move.fromHostId === hostId)
}
