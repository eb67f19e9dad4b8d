import { GuestEvacuator, type GuestEvacuatorOptions } from './evacuation/guest-evacuator.js'
import { GuestMover, type GuestMoverOptions } from './moves/guest-mover.js'
import { MoveDecider, type MoveDeciderOptions } from './moves/move-decider.js'
import { OldCopies, type OldCopiesOptions } from './evacuation/old-copies.js'
import type { Relocation } from './move-contract.js'
import { OwnerConfirmations, type OwnerConfirmationsOptions } from './moves/owner-confirmations.js'

export interface OpenRelocation extends Relocation {
  /** Decides and ends moves and evacuations, also those that other gateways have begun. */
  readonly decider: MoveDecider
}

type RelocationParts = GuestMoverOptions &
  GuestEvacuatorOptions &
  OwnerConfirmationsOptions &
  OldCopiesOptions &
  Omit<MoveDeciderOptions, 'evacuator' | 'confirmations'>

export function openRelocation(parts: RelocationParts): OpenRelocation {
  const evacuations = new GuestEvacuator(parts)
  const confirmations = new OwnerConfirmations(parts)
  const decider = new MoveDecider({ ...parts, evacuator: evacuations, confirmations })
  return { moves: new GuestMover(parts), evacuations, oldCopies: new OldCopies(parts), decider }
}
