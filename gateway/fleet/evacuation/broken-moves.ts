import type { Logger } from 'pino'
import { conflict, describeError } from '../../../shared/errors.js'
import type { Announcer } from '../moves/announcer.js'
import type { MoveStore, StoredMove } from '../moves/move-store.js'
import { mayForgetMove } from '../placement/plan-owner.js'

export interface BrokenMovesOptions {
  readonly moves: Pick<MoveStore, 'find' | 'decide' | 'confirmDecided'>
  readonly announcer: Pick<Announcer, 'dismissOther'>
  readonly reached: (hostId: string, revision: number) => Promise<void>
  readonly log: Logger
}

/** Ends moves away from failed hosts, so that their guests can be restored on other hosts. */
export class BrokenMoves {
  constructor(private readonly options: BrokenMovesOptions) {}

  /**
   * Cancels the guest's move, so that the guest can be restored elsewhere.
   * @returns the canceled move. Undefined: the guest does not move
   * @throws {BerthError} `guest_moving` if the target of the move is or became the owner
   */
  async cancel(uuid: string, failedHostId: string): Promise<StoredMove | undefined> {
    const { moves } = this.options
    const found = await moves.find(uuid)
    if (!found) return undefined
    if (!found.decided && found.fromHostId === failedHostId) await moves.decide(found, 'cancel')
    const move = await moves.find(uuid)
    if (!move) return undefined
    if (!isOver(move, failedHostId) || !(await moves.confirmDecided(move)))
      throw conflict('guest_moving', 'the container is already moving to another host')
    return move
  }

  /**
   * Lets the target of a canceled move delete what it has received. If the target cannot be reached now, it is informed
   * when it is online again. Never rejects.
   */
  async dismissTarget(move: StoredMove): Promise<void> {
    try {
      for (const { hostId, revision } of await this.options.announcer.dismissOther(move))
        await this.options.reached(hostId, revision)
    } catch (error) {
      const reason = describeError(error)
      this.options.log.debug({ guest: move.uuid, reason }, 'the target of a canceled move could not be informed')
    }
  }
}

/** True if the move has ended, and the failed host is still the owner. */
export function isOver({ fromHostId, decided }: StoredMove, failedHostId: string): boolean {
  return mayForgetMove({ fromHostId, isDecided: decided?.ownerId === failedHostId }, failedHostId)
}
