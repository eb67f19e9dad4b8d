import { GuestEvacuator, type GuestEvacuatorOptions } from './evacuation/guest-evacuator.js'
import { GuestMover, type GuestMoverOptions } from './moves/guest-mover.js'
import { MoveDecider, type MoveDeciderOptions } from './moves/move-decider.js'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './moves/owner-confirmations.js'

/** The parts that bring guests to other hosts: by a move, or from a backup if their host has failed. */
export interface Relocation {
  readonly mover: GuestMover
  readonly evacuator: GuestEvacuator
  /** Decides and ends moves and evacuations, also those that other gateways have begun. */
  readonly decider: MoveDecider
}

type RelocationParts = GuestMoverOptions &
  GuestEvacuatorOptions &
  OwnerConfirmationsOptions &
  Omit<MoveDeciderOptions, 'evacuator' | 'confirmations'>

export function openRelocation(parts: RelocationParts): Relocation {
  const mover = new GuestMover(parts)
  const evacuator = new GuestEvacuator(parts)
  const confirmations = new OwnerConfirmations(parts)
  return { mover, evacuator, decider: new MoveDecider({ ...parts, evacuator, confirmations }) }
}
