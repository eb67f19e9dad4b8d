import { BerthError, conflict, toBerthError } from '../../shared/errors.js'
import { isEnded } from '../fleet/lists/operation-table.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import { changesAddresses, type Suggestion } from '../fleet/move-contract.js'
import type {
  AutomaticMove,
  BalancingSettings,
  BalancingState,
  FailedDryRun,
  RefusedGuest,
} from './balancing-record.js'
import { isExcluded, isPaused } from './plan-balancing.js'

interface ChoiceFacts extends Required<Pick<BalancingState, 'movedAt' | 'failedDryRuns'>> {
  readonly settings: BalancingSettings
  readonly nowMs: number
}

/** Guests that a check has not moved, and why. */
export class Refusals {
  /** Guests that must not move in the present check, by uuid. */
  readonly guests = new Map<string, RefusedGuest>()
  /** Dry runs of the present check that have failed, by the uuid of the guest. */
  readonly dryRuns = new Map<string, FailedDryRun>()

  add({ guest: { uuid, name } }: GuestView, { code, message }: Pick<BerthError, 'code' | 'message'>): void {
    this.guests.set(uuid, { uuid, name, code, message })
  }

  addDryRun(view: GuestView, refusal: BerthError, atMs: number): void {
    this.add(view, refusal)
    this.dryRuns.set(view.guest.uuid, { atMs, code: refusal.code, message: refusal.message })
  }
}

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
  if (refusal) refusals.addDryRun(suggestion.guest, refusal, facts.nowMs)
  return refusal ? 'refused' : chosen(suggestion)
}

function chosen({ guest: { guest, hostId }, toHostId, reason }: Suggestion): ChosenMove {
  return { uuid: guest.uuid, name: guest.name, fromHostId: hostId, toHostId, reason }
}

/** @throws {BerthError} if the guest must not move, before a target is chosen */
function refuseGuest(fleet: Fleet, facts: ChoiceFacts, view: GuestView, refusals: Refusals): void {
  const known = refusals.guests.get(view.guest.uuid)
  if (known) throw conflict(known.code, known.message)
  const refusal = findRefusal(fleet, facts, view)
  if (!refusal) return
  refusals.add(view, refusal)
  throw refusal
}

function findRefusal(
  fleet: Fleet,
  { settings, movedAt, failedDryRuns, nowMs }: ChoiceFacts,
  { guest: { uuid, portMappings } }: GuestView,
): BerthError | undefined {
  const times = [movedAt[uuid] ?? 0, lastMoveMs(fleet, uuid)]
  if (times.some((time) => isPaused(settings, time, nowMs))) return recentlyMoved
  if (portMappings.length > 0 && !settings.changesAddresses) return otherAddresses
  const failed = failedDryRuns[uuid]
  return failed && isExcluded(settings, failed, nowMs) ? conflict(failed.code, failed.message) : undefined
}

/** Returns the end of the last move that anybody has requested, in ms since 1970. 0: none is known. */
function lastMoveMs({ view }: Fleet, uuid: string): number {
  const operation = view.latestOperation(uuid, 'migrate')?.operation
  return operation && isEnded(operation) ? operation.finishedAtMs : 0
}

/**
 * Lets the hosts check the move in a dry run.
 * @returns why the guest must stay on its host
 * @throws {BerthError} `store_unavailable`
 */
async function checkMove(
  fleet: Fleet,
  settings: BalancingSettings,
  { guest, toHostId }: Suggestion,
): Promise<BerthError | undefined> {
  try {
    const plan = await fleet.relocation.moves.check({ guest, toHostId, offline: false })
    return changesAddresses(guest, plan) && !settings.changesAddresses ? otherAddresses : undefined
  } catch (error) {
    if (error instanceof BerthError && error.code === 'store_unavailable') throw error
    return toBerthError(error, 'the move could not be planned: see the log of the gateway')
  }
}

const recentlyMoved = conflict('recently_moved', 'the container was moved a short time ago')
const otherAddresses = conflict('changes_addresses', 'the move would change addresses or ports of the container')
