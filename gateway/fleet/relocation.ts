import { GuestEvacuator, type GuestEvacuatorOptions } from './evacuation/guest-evacuator.js'
import { GuestMover, type GuestMoverOptions } from './moves/guest-mover.js'
import { MoveDecider, type MoveDeciderOptions } from './moves/move-decider.js'
import { OldCopies, type OldCopiesOptions } from './evacuation/old-copies.js'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './moves/owner-confirmations.js'

/** The parts that bring guests to other hosts: by a move, or from a backup if their host has failed. */
export interface Relocation {
  readonly mover: GuestMover
  readonly evacuator: GuestEvacuator
  readonly oldCopies: OldCopies
  /** Decides and ends moves and evacuations, also those that other gateways have begun. */
  readonly decider: MoveDecider
}

type RelocationParts = GuestMoverOptions &
  GuestEvacuatorOptions &
  OwnerConfirmationsOptions &
  OldCopiesOptions &
  Omit<MoveDeciderOptions, 'evacuator' | 'confirmations'>

export function openRelocation(parts: RelocationParts): Relocation {
  const mover = new GuestMover(parts)
  const evacuator = new GuestEvacuator(parts)
  const confirmations = new OwnerConfirmations(parts)
  const oldCopies = new OldCopies(parts)
  return { mover, evacuator, oldCopies, decider: new MoveDecider({ ...parts, evacuator, confirmations }) }
}
