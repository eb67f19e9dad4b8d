import type { AppointOwnerRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { notFound } from '../../../shared/errors.js'
import { adoptAddresses, departAddresses } from '../../network/addresses/shared-pools.js'
import { parseUuid } from '../create/parse-create.js'
import {
  planOwnership,
  type OwnershipChange,
  type OwnershipEvent,
  type OwnershipRole,
} from '../ownership/plan-ownership.js'
import { mayRun } from '../policy/policy.js'
import { removeCopy, removeVolumes } from '../snapshots/snapshots.js'
import { readArrival, type ArrivalsParts } from './arrival-details.js'
import { changeOwnership, readOwnership, writeDetails } from './change-ownership.js'
import { endFenced, liftFence, recordFence } from './fence.js'
import { readKept } from './leave.js'
import type { LiveArrivals } from './live-target.js'

/** Applies the decisions of the gateway about the owners of guests. */
export class OwnerDecisions {
  constructor(
    private readonly parts: Pick<ArrivalsParts, 'context' | 'start' | 'putTraffic'>,
    private readonly live: LiveArrivals,
  ) {}

  /**
   * Applies a decision of the gateway: this host owns the guest, or does not own it. Decisions can be repeated or late.
   * @throws {BerthError} `not_found` if this host should be the owner, but does not have the guest completely
   */
  async appoint(request: AppointOwnerRequest): Promise<void> {
    const uuid = parseUuid('uuid', request.uuid)
    await this.parts.context.store.mutex.run(uuid, () => this.#apply(uuid, request))
    if (request.isOwner) this.#refuseMissing(uuid)
  }

  /** @throws {BerthError} `not_found` if this host does not have the guest or does not own it */
  #refuseMissing(uuid: string): void {
    const { store } = this.parts.context
    const { role } = readOwnership(store, uuid)
    if (!store.find(uuid) || (role !== 'owner' && role !== 'leaving')) throw notFound('container')
  }

  async #apply(uuid: string, { generation, isOwner, keepCopy }: AppointOwnerRequest): Promise<void> {
    const { store } = this.parts.context
    const event = { kind: 'appoint', generation, isOwner, keepsCopy: keepCopy ?? false } as const
    await this.#endIfDiscarded(uuid, event)
    const { before, change } = store.changes.transaction(() => this.#journalOwner(uuid, event))
    await endFenced(this.parts.context, uuid) // also if an earlier attempt recorded the fence and then failed
    // A target removes its received data here. On a source, the operation of the move deletes the guest.
    if (change?.effect === 'discard' && before === 'arriving') await removeVolumes(this.parts.context, uuid)
    if (change?.effect === 'start' && before === 'arriving') await this.#startArrived(uuid)
    await this.#forgetReceived(uuid)
  }

  /** Starts a guest that has arrived. If it is not allowed to run, ends the QEMU process that received its memory. */
  async #startArrived(uuid: string): Promise<void> {
    const { context } = this.parts
    // The copy of a standby counts towards the disk limit of its guest.
    await removeCopy(context, uuid).catch((err: unknown) =>
      context.log.warn({ err, guest: uuid }, 'could not delete the copy of the standby of a guest that has arrived'),
    )
    const record = context.store.find(uuid)
    if (!record) return
    if (mayRun(record)) this.parts.start(uuid)
    else await this.live.end(record)
  }

  async #endIfDiscarded(uuid: string, event: OwnershipEvent): Promise<void> {
    const known = readOwnership(this.parts.context.store, uuid)
    if (planOwnership(known, event)?.effect === 'discard') await this.live.endArriving(uuid)
  }

  #journalOwner(uuid: string, event: OwnershipEvent) {
    const { store, history } = this.parts.context
    const { role: before, moveId } = readOwnership(store, uuid)
    const change: OwnershipChange | undefined = changeOwnership(store, uuid, event)
    if (before === 'arriving' && change?.effect === 'start') this.#takeOver(uuid, moveId)
    if (change?.effect === 'discard') this.#discard(uuid, before)
    if (before === 'fenced' && change?.effect === 'start') liftFence(store, uuid)
    if (change?.effect === 'fence') recordFence(this.parts.context, uuid, before)
    if (change) history.prune()
    return { before, change }
  }

  #discard(uuid: string, before: OwnershipRole): void {
    const { store, network } = this.parts.context
    if (before === 'arriving') store.remove(uuid)
    // The target has adopted the addresses that the guest keeps, so these leave this host's pool.
    if (before === 'handed_over') departAddresses(store.changes.db, network.listShared(readKept(store, uuid)))
  }

  #takeOver(uuid: string, moveId: string): void {
    const { store, history } = this.parts.context
    const { arrived, snapshot, received, kept = [] } = readArrival(store, uuid)
    if (!arrived) throw notFound('completely received copy of the container')
    adoptAddresses(store.changes.db, kept)
    const { document, login, limits, trafficCount, isWanted } = arrived
    store.update(uuid, { ...document, login, limits, status: 'stopped', wanted: isWanted ? 'running' : 'stopped' })
    if (trafficCount) this.parts.putTraffic(uuid, trafficCount)
    history.adopt({ transferId: moveId, uuid })
    writeDetails(store, uuid, { snapshot, received }) // kept until `#forgetReceived` has deleted the snapshots
  }

  /** Deletes received snapshots that the guest does not keep. Called last, so that the move need not wait for this. */
  async #forgetReceived(uuid: string): Promise<void> {
    const { store, volumes } = this.parts.context
    const { snapshot, received = {} } = readArrival(store, uuid)
    if (readOwnership(store, uuid).role !== 'owner' || snapshot === undefined) return
    const kept = new Set(store.find(uuid)?.snapshots.map(({ id }) => id))
    for (const id of new Set([...Object.keys(received), snapshot]))
      if (!kept.has(id)) await volumes.deleteSnapshot(uuid, id)
    writeDetails(store, uuid, {})
  }
}
