import type { Logger } from 'pino'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Ratios } from '../../../shared/allocation.js'
import { BerthError, conflict, notFound } from '../../../shared/errors.js'
import { UnansweredError } from '../../../shared/grpc-errors.js'
import type { AgentClient } from '../agent-contract.js'
import type { GuestView } from '../contract.js'
import type { BegunEvacuation, EvacuationRequest, GuestEvacuations, PlannedEvacuation } from '../move-contract.js'
import { recheck } from '../moves/owner-confirmations.js'
import type { StoredMove } from '../moves/move-store.js'
import type { GuestOwners } from '../placement/guest-owners.js'
import type { Placement } from '../placement/placement.js'
import { findReported } from '../reported-guests.js'
import { sharedPoolsOf } from '../shared-pools.js'
import type { FleetState } from '../view.js'
import type { WatchedHosts } from '../watched-hosts.js'
import type { Standbys } from '../standby/standbys.js'
import type { BrokenMoves } from './broken-moves.js'
import { isFromStandby, namesOf, planSource, preferenceOf, type EvacuationSource } from './plan-source.js'
import { specOf } from './restored-spec.js'
import type { EvacuationStore, StoredEvacuation } from './evacuation-store.js'

export interface GuestEvacuatorOptions {
  readonly view: FleetState
  readonly watched: Pick<WatchedHosts, 'agent' | 'isRemoved'>
  readonly placement: Pick<Placement, 'planTargets' | 'reserveTarget' | 'release'>
  readonly owners: Pick<GuestOwners, 'check'>
  readonly brokenMoves: Pick<BrokenMoves, 'cancel' | 'dismissTarget'>
  readonly evacuations: EvacuationStore
  readonly standbys: Pick<Standbys, 'findUsable'>
  readonly ratios: Ratios
  readonly log: Logger
  readonly reached: (hostId: string, revision: number) => Promise<void>
}

/** A guest of a failed host that can be restored. */
interface Restorable {
  readonly guest: GuestView
  readonly source: EvacuationSource
  /** Its move away from the failed host, which was canceled. Undefined: it did not move. */
  readonly move: StoredMove | undefined
}

/** Restores guests of failed hosts on other hosts, from their newest backups. */
export class GuestEvacuator implements GuestEvacuations {
  constructor(private readonly options: GuestEvacuatorOptions) {}

  /** Plans the evacuation of several guests, as if they were restored one after another. Changes nothing. */
  async planAll(guests: readonly GuestView[]): Promise<PlannedEvacuation[]> {
    // Even unrestorable guests count as moving. Otherwise, `together` rules would bind other guests to the failed host.
    const alsoMoving = guests.map(({ guest }) => guest.uuid)
    const usable = await this.options.standbys.findUsable(guests)
    const sources = new Map(
      guests.map(({ guest }) => [guest.uuid, planSource(guest.backups, usable.get(guest.uuid))] as const),
    )
    const targets = await this.options.placement.planTargets(
      guests,
      (guest) => refuseUnrestorable(guest, sources.get(guest.guest.uuid)!),
      { alsoMoving, isFromBackup: true, preferred: ({ guest }) => preferenceOf(sources.get(guest.uuid)!) },
    )
    return guests.map((guest, at) => {
      const target = targets[at]!
      const source = sources.get(guest.guest.uuid)!
      const { backup, standby } = source
      const known = { guest, ...(backup && { backup }), ...(standby && { standby }) }
      if (target instanceof BerthError) return { ...known, toHostId: '', message: target.message, isFromStandby: false }
      return { ...known, toHostId: target, message: '', isFromStandby: isFromStandby(source, target) }
    })
  }

  /**
   * Makes another host the owner of the guest, and orders its restore there. If a restore has begun already, perhaps with
   * another id, orders the same restore again, because its order was possibly lost.
   * @throws {BerthError} `invalid_state` if the guest's host is online; `guest_moving`, `backup_missing`,
   * `guest_busy`, `resource_exhausted`, `agent_outdated`, or an error of the target
   */
  async begin(request: EvacuationRequest): Promise<BegunEvacuation> {
    const evacuation = (await this.#findBegun(request)) ?? (await this.#store(request))
    const { id: operationId, toHostId } = evacuation
    if (!this.options.view.findOperation(operationId)) await this.#order(evacuation, request)
    return { operationId, toHostId }
  }

  /**
   * Finds a restore of the guest that has begun without a failure so far. Its order can be repeated without harm.
   * @throws {BerthError} `guest_busy` if a restore has failed, but the failed host is not the owner again yet
   */
  async #findBegun({ uuid, operationId }: EvacuationRequest): Promise<StoredEvacuation | undefined> {
    const { evacuations } = this.options
    const found = await evacuations.find(uuid)
    if (found && !found.isReinstated && !this.#hasFailed(found)) return found
    if (found && !found.isReinstated) await this.#settle(found)
    const left = await evacuations.find(uuid)
    if (left && (!left.isReinstated || left.id === operationId))
      throw conflict('guest_busy', 'an earlier restore of the container has failed and has not been undone yet')
    return undefined
  }

  /** True if the restore has failed, or its target was removed from the fleet. */
  #hasFailed({ id, toHostId }: StoredEvacuation): boolean {
    const status = this.options.view.findOperation(id)?.operation.status
    return status === 'failed' || status === 'canceled' || this.options.watched.isRemoved(toHostId)
  }

  /** Ends all evacuations whose restore has ended. If the target has no copy, the failed host owns the guest again. */
  async settleAll(): Promise<void> {
    for (const evacuation of await this.options.evacuations.list()) await this.#settle(evacuation)
  }

  async #store(request: EvacuationRequest): Promise<StoredEvacuation> {
    const { operationId: id, uuid, hostId: fromHostId, refusedBy } = request
    const { placement, evacuations, brokenMoves } = this.options
    const guest = this.#findFailed(request)
    const { unusable = [], guest: earlier } = (await evacuations.find(uuid)) ?? {}
    const usable = (await this.options.standbys.findUsable([guest])).get(uuid)
    const source = planSource(guest.guest.backups, usable, [...unusable, ...refusedBy])
    refuseUnrestorable(guest, source)
    const move = await brokenMoves.cancel(uuid, fromHostId)
    try {
      const toHostId = await this.#reserveTarget(request, { guest, source, move })
      const text = earlier ?? encodeGuest(guest.guest, this.#ranBefore(move))
      const named = namesOf(source, toHostId)
      const begun = await evacuations.begin({ id, uuid, fromHostId, toHostId, guest: text, ...named, unusable })
      if (move && move.toHostId !== toHostId) void brokenMoves.dismissTarget(move)
      return begun
    } catch (error) {
      if ((await evacuations.find(uuid))?.id !== id) await placement.release([id])
      throw error
    }
  }

  /** @throws {BerthError} `not_found` if the failed host does not have the guest; `invalid_state` if it is online */
  #findFailed({ uuid, hostId }: EvacuationRequest): GuestView {
    const guest = this.options.view.findGuest(uuid)
    if (guest?.hostId !== hostId) throw notFound('container')
    if (guest.online) throw conflict('invalid_state', 'the host is online again: its containers stay on it')
    return guest
  }

  /**
   * Reserves resources on a host that has no copy of the guest. The target of a canceled move deletes its copy only now,
   * when the guest can be restored.
   * @returns the id of the host
   */
  async #reserveTarget(
    { operationId, uuid, hostId, refusedBy }: EvacuationRequest,
    { guest, source, move }: Restorable,
  ): Promise<string> {
    const { view, placement, brokenMoves, watched } = this.options
    const copies = [...view.states()].map(({ record }) => record.id).filter((id) => this.#hasCopy(id, uuid))
    const alsoMoving = [...view.guestsOf(hostId)].map((other) => other.guest.uuid)
    const refused = { refusedBy: [...refusedBy, ...copies], alsoMoving, isFromBackup: true }
    const toHostId = await placement.reserveTarget(operationId, guest, { ...refused, ...preferenceOf(source) })
    if (toHostId === move?.toHostId) await brokenMoves.dismissTarget(move)
    if (this.#hasCopy(toHostId, uuid))
      throw conflict(
        'invalid_state',
        'the only suitable target host has an old copy of the container: delete this copy first',
      )
    watched.agent(toHostId)
    return toHostId
  }

  #hasCopy(hostId: string, uuid: string): boolean {
    const host = this.options.view.findState(hostId)
    return host !== undefined && findReported(host, uuid) !== undefined
  }

  /** True if the move had not ended when the source failed, and the guest ran before the move. */
  #ranBefore(move: StoredMove | undefined): boolean {
    const status = move && this.options.view.findOperation(move.id)?.operation.status
    return move?.isRunning === true && !['done', 'failed', 'canceled'].includes(status ?? '')
  }

  /** Shows the guest on its owner: on the target after a restore, or on the former host after a failed restore. */
  async #showOnOwner({ fromHostId, uuid }: StoredEvacuation): Promise<void> {
    const host = this.options.view.findState(fromHostId)
    const guest = host && findReported(host, uuid)
    if (host && guest) await recheck(this.options.view, this.options.owners, host, guest)
  }

  async #order(evacuation: StoredEvacuation, { requestedBy, openTarget }: EvacuationRequest): Promise<void> {
    const { id, uuid, toHostId, targetId, backupId, standbyId = '', generation } = evacuation
    try {
      const target = standbyId === '' ? await openTarget(targetId) : undefined
      if (!(await this.options.evacuations.confirm(evacuation))) return
      const former = Guest.decode(Buffer.from(evacuation.guest, 'base64'))
      const create = {
        id: former.id,
        uuid,
        name: former.name,
        spec: specOf(former),
        overcommit: this.options.ratios,
        firewall: undefined,
        backupSchedule: undefined,
      }
      const sharedPools = sharedPoolsOf(this.options.view, evacuation.fromHostId, former)
      const value = { create, target, backupId, sourceUuid: uuid, generation, former, sharedPools, standbyId }
      const order = { $case: 'createFromBackup', value } as const
      const { revision } = await this.#agent(toHostId).operations.submitOperation({
        operationId: id,
        requestedBy,
        order,
      })
      await this.options.reached(toHostId, revision)
    } catch (error) {
      // After an unanswered call, the restore has possibly begun. `settleAll` and the next attempt find this out.
      if (error instanceof UnansweredError || !isRefusal(error)) throw error
      await this.#reinstate(evacuation)
      throw error
    }
  }

  async #settle(evacuation: StoredEvacuation): Promise<void> {
    const { view, watched } = this.options
    if (evacuation.isReinstated) return this.#announce(evacuation)
    const target = view.findState(evacuation.toHostId)
    const isThere = target !== undefined && findReported(target, evacuation.uuid) !== undefined
    if (view.findOperation(evacuation.id)?.operation.status === 'done') return this.#finish(evacuation)
    if (!this.#hasFailed(evacuation)) return
    // A restore that could not be undone leaves a guest with the status `error`. Only the guest's host can delete it.
    if (isThere) return this.#finish(evacuation)
    if (target?.online || watched.isRemoved(evacuation.toHostId)) await this.#reinstate(evacuation)
  }

  /** Informs the former host that it owns the guest again. The host possibly still regards its copy as outdated. */
  async #announce(evacuation: StoredEvacuation): Promise<void> {
    const { view, evacuations, reached, log } = this.options
    const { uuid, generation, fromHostId } = evacuation
    // For a removed host, only the evacuation is forgotten. The sweep of reservations frees the guest's name and id.
    if (this.options.watched.isRemoved(fromHostId)) return evacuations.forget(evacuation)
    if (!view.findState(fromHostId)?.online || !(await evacuations.confirm(evacuation))) return
    try {
      const { revision } = await this.#agent(fromHostId).moves.appointOwner({ uuid, generation, isOwner: true })
      await reached(fromHostId, revision)
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== 'not_found') throw error
      log.warn(
        { guest: uuid, host: fromHostId },
        'a host that has returned no longer has a guest that it had before it failed',
      )
    }
    await evacuations.forget(evacuation)
  }

  /** Ends an evacuation whose target has the guest. */
  async #finish(evacuation: StoredEvacuation): Promise<void> {
    await this.#showOnOwner(evacuation)
    await this.options.evacuations.forget(evacuation)
  }

  async #reinstate(evacuation: StoredEvacuation): Promise<void> {
    const { placement, evacuations, log } = this.options
    const { errorCode = '' } = this.options.view.findOperation(evacuation.id)?.operation ?? {}
    const { unusable = [], backupId, standbyId } = evacuation
    // After any failure of a start from a standby, a backup is tried, if the guest has one.
    const isLost = standbyId !== undefined || lostBackupCodes.has(errorCode)
    await evacuations.reinstate(isLost ? { ...evacuation, unusable: [...unusable, standbyId ?? backupId] } : evacuation)
    await placement.release([evacuation.id])
    await this.#showOnOwner(evacuation)
    log.warn({ guest: evacuation.uuid, host: evacuation.toHostId }, 'a container could not be restored on another host')
  }

  #agent(hostId: string): AgentClient {
    return this.options.watched.agent(hostId)
  }
}

/** @throws {BerthError} `backup_missing`, `invalid_state` */
function refuseUnrestorable({ guest }: Pick<GuestView, 'guest'>, { backup, standby }: EvacuationSource): void {
  if (guest.deletion) throw conflict('invalid_state', 'the container is deleted')
  if (guest.status === 'creating')
    throw conflict('invalid_state', 'the container was being created when its host failed')
  if (!backup && !standby) throw conflict('backup_missing', 'the container has no backup')
}

/** @returns the guest as protobuf in base64. @param ran true if the guest ran, although it was possibly stopped for a move */
function encodeGuest(guest: Guest, ran: boolean): string {
  const before = ran ? { ...guest, status: 'running' } : guest
  return Buffer.from(Guest.encode(before).finish()).toString('base64')
}

/** Codes of failed restores after which an older backup is tried. Otherwise, the same backup is tried again. */
const lostBackupCodes: ReadonlySet<string> = new Set(['backup_damaged', 'backup_missing'])

function isRefusal(error: unknown): boolean {
  return error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found'].includes(error.kind)
}
