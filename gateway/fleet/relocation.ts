import { GuestEvacuator, type GuestEvacuatorOptions } from './evacuation/guest-evacuator.js'
import { BrokenMoves } from './evacuation/broken-moves.js'
import { Announcer, type AnnouncerOptions } from './moves/announcer.js'
import { GuestMover, type GuestMoverOptions } from './moves/guest-mover.js'
import { MoveDecider, type MoveDeciderOptions } from './moves/move-decider.js'
import { OldCopies, type OldCopiesOptions } from './evacuation/old-copies.js'
import type { Relocation } from './move-contract.js'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './moves/owner-confirmations.js'
import { MovedStandbys, type MovedStandbysOptions } from './standby/moved-standbys.js'
import { StandbyKeeper, type StandbyKeeperOptions } from './standby/standby-keeper.js'
import { StandbyStore } from './standby/standby-store.js'
import { Standbys } from './standby/standbys.js'

export interface OpenRelocation extends Relocation {
  /** Decides and ends moves and evacuations, also those that other gateways have begun. */
  readonly decider: MoveDecider
  /** Orders the increments of standbys. */
  readonly keeper: StandbyKeeper
}

type RelocationParts = GuestMoverOptions &
  Omit<GuestEvacuatorOptions, 'standbys' | 'brokenMoves'> &
  Omit<StandbyKeeperOptions, 'standbys' | 'standbyStore' | 'moved'> &
  Omit<MovedStandbysOptions, 'standbys' | 'standbyStore'> &
  OwnerConfirmationsOptions &
  OldCopiesOptions &
  Omit<MoveDeciderOptions, 'evacuator' | 'confirmations' | 'announcer'> &
  AnnouncerOptions

export function openRelocation(parts: RelocationParts): OpenRelocation {
  const standbyStore = new StandbyStore(parts.store)
  const standbys = new Standbys({ ...parts, standbyStore })
  const announcer = new Announcer(parts)
  const brokenMoves = new BrokenMoves({ ...parts, announcer })
  const evacuations = new GuestEvacuator({ ...parts, standbys, brokenMoves })
  const confirmations = new OwnerConfirmations(parts)
  const decider = new MoveDecider({ ...parts, announcer, evacuator: evacuations, confirmations })
  const moved = new MovedStandbys({ ...parts, standbys, standbyStore })
  const keeper = new StandbyKeeper({ ...parts, standbys, standbyStore, moved })
  return { moves: new GuestMover(parts), evacuations, oldCopies: new OldCopies(parts), standbys, decider, keeper }
}
