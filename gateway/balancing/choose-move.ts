import { conflict, toBerthError, type BerthError } from '../../shared/errors.js'
import { isEnded } from '../fleet/lists/operation-table.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import { changesAddresses, type Suggestion } from '../fleet/move-contract.js'
import type { AutomaticMove, BalancingSettings, BalancingState, RefusedGuest } from './balancing-record.js'
import { isPaused } from './plan-balancing.js'

interface ChoiceFacts extends Pick<BalancingState, 'movedAt'> {
  readonly settings: BalancingSettings
  readonly nowMs: number
}

/** Guests that must not move in the present check, by uuid. */
export type Refusals = Map<string, RefusedGuest>

export type ChosenMove = Pick<AutomaticMove, 'uuid' | 'name' | 'fromHostId' | 'toHostId' | 'reason'>

/**
 * Chooses the next automatic move, and changes nothing except `refusals`.
 * @param refusals guests that must not move; this function adds guests
 * @returns `none`: no move is suggested; `refused`: the suggested guest cannot move, and another call can find a move
 */
export async function chooseMove(
  fleet: Fleet,
  facts: ChoiceFacts,
  refusals: Refusals,
): Promise<ChosenMove | 'none' | 'refused'> {
  const { reasons, minGain } = facts.settings
  const refuse = (guest: GuestView): void => refuseGuest(fleet, facts, guest, refusals)
  const choice = { reasons, leastGain: minGain / 100, most: 1, refuse }
  const suggestions = await fleet.relocation.moves.suggest(choice)
  const suggestion = suggestions.find(({ toHostId }) => toHostId !== '')
  if (!suggestion) return 'none'
  const refusal = await checkMove(fleet, facts.settings, suggestion)
  if (refusal) addRefusal(refusals, suggestion.guest, refusal)
  return refusal ? 'refused' : chosen(suggestion)
}

function chosen({ guest: { guest, hostId }, toHostId, reason }: Suggestion): ChosenMove {
  return { uuid: guest.uuid, name: guest.name, fromHostId: hostId, toHostId, reason }
}

/** @throws {BerthError} if the guest must not move, before a target is chosen */
function refuseGuest(fleet: Fleet, { settings, movedAt, nowMs }: ChoiceFacts, view: GuestView, refusals: Refusals) {
  const { uuid, portMappings } = view.guest
  const known = refusals.get(uuid)
  if (known) throw conflict(known.code, known.message)
  const times = [movedAt[uuid] ?? 0, lastMoveMs(fleet, uuid)]
  const refusal = times.some((time) => isPaused(settings, time, nowMs))
    ? recentlyMoved
    : portMappings.length > 0 && !settings.changesAddresses
      ? otherAddresses
      : undefined
  if (!refusal) return
  addRefusal(refusals, view, refusal)
  throw refusal
}

/** Returns the end of the last move that anybody has requested, in ms since 1970. 0: none is known. */
function lastMoveMs({ view }: Fleet, uuid: string): number {
  const operation = view.latestOperation(uuid, 'migrate')?.operation
  return operation && isEnded(operation) ? operation.finishedAtMs : 0
}

/** Lets the hosts check the move in a dry run. @returns why the guest must stay on its host */
async function checkMove(
  fleet: Fleet,
  settings: BalancingSettings,
  { guest, toHostId }: Suggestion,
): Promise<BerthError | undefined> {
  try {
    const plan = await fleet.relocation.moves.check({ guest, toHostId, offline: false })
    return changesAddresses(guest, plan) && !settings.changesAddresses ? otherAddresses : undefined
  } catch (error) {
    return toBerthError(error, 'the move could not be planned: see the log of the gateway')
  }
}

function addRefusal(refusals: Refusals, { guest: { uuid, name } }: GuestView, { code, message }: BerthError): void {
  refusals.set(uuid, { uuid, name, code, message })
}

const recentlyMoved = conflict('recently_moved', 'the container was moved a short time ago')
const otherAddresses = conflict('changes_addresses', 'the move would change addresses or ports of the container')
