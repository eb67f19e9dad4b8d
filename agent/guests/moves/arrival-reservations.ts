import type { ExpectGuestRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { readListeningPorts } from '../../network/ports.js'
import { checkRoom } from '../../storage/room.js'
import { checkAllocation, listPresent } from '../create/allocation.js'
import { planOwnership } from '../ownership/plan-ownership.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'
import { checkCapacity } from '../resources/capacity.js'
import { removeVolumes } from '../snapshots/snapshots.js'
import type { ArrivalDetails, ArrivalsParts } from './arrival-details.js'
import { changeOwnership, readOwnership, writeDetails } from './change-ownership.js'
import type { LiveArrivals } from './live-target.js'
import { parseArriving, reserveArrival, type ArrivingGuest, type ReservedArrival } from './reserve-arrival.js'

const gib = 1024 ** 3

/** Addresses and ports that a guest gets on this host. */
export type ReservedNetwork = Pick<GuestRecord, 'portMappings' | 'publicIpv4s' | 'ipv6Addresses' | 'ipv4'>

/** Reserves resources and addresses for guests that are about to arrive from other hosts. */
export class ArrivalReservations {
  constructor(
    private readonly parts: Pick<ArrivalsParts, 'context' | 'capacity' | 'busy'>,
    private readonly live: LiveArrivals,
  ) {}

  /**
   * Makes the reservation for the arriving guest. Without a move id, only checks that a reservation would succeed.
   * @throws {BerthError} `invalid_state`, `guest_moving`, `name_conflict`, `resource_exhausted`, `unsupported`, `invalid_field`, and
   * `offline_required` if the guest runs and cannot continue on this host
   */
  async expect(request: ExpectGuestRequest): Promise<ReservedNetwork> {
    const guest = parseArriving(request)
    const { context, capacity } = this.parts
    refuseOldCopy(context.store, guest.uuid)
    const { virtualization } = guest.spec
    if (!context.machines.findDriver(virtualization)) {
      const kind = virtualization === 'kvm' ? 'virtual machines' : 'LXC containers'
      throw new BerthError('invalid', 'unsupported', `the target host cannot run ${kind}`)
    }
    checkCapacity(guest.spec.limits, capacity)
    const disk = await capacity.readDisk()
    checkRoom(disk, guest.spec.limits.diskGb * gib)
    const listening = await readListeningPorts()
    const reserve = (): ReservedArrival => {
      const { overcommit } = request
      const present = listPresent(context.store, guest.uuid)
      checkAllocation(present, guest.spec.limits, { capacity, disk, overcommit })
      return reserveArrival(context, guest, listening)
    }
    const record = request.moveId === '' ? this.#tryReserve(guest, reserve) : await this.#begin(guest, request, reserve)
    if (request.liveFacts !== '') await this.live.refuseObstacles(record, request.liveFacts)
    const { portMappings, publicIpv4s, ipv6Addresses, ipv4 } = record
    return { portMappings, publicIpv4s, ipv6Addresses, ipv4 }
  }

  #begin(guest: ArrivingGuest, request: ExpectGuestRequest, reserve: () => ReservedArrival): Promise<GuestRecord> {
    const { store } = this.parts.context
    return store.mutex.run(guest.uuid, async () => {
      await this.#discardOlder(guest.uuid, request)
      return store.changes.transaction(() => this.#reserve(guest, request, reserve))
    })
  }

  /** Makes the reservation in a transaction and rolls it back, to check whether it would succeed. */
  #tryReserve(guest: ArrivingGuest, reserve: () => unknown): GuestRecord {
    const { store } = this.parts.context
    let found: GuestRecord | undefined
    const takeBack = new Error('only checked')
    try {
      store.changes.transaction(() => {
        reserve()
        found = store.get(guest.uuid)
        throw takeBack
      })
    } catch (error) {
      if (error !== takeBack) throw error
    }
    return found!
  }

  #reserve(
    guest: ArrivingGuest,
    { moveId, generation, fromHostId }: ExpectGuestRequest,
    reserve: () => ReservedArrival,
  ): GuestRecord {
    const { store } = this.parts.context
    const before = readOwnership(store, guest.uuid)
    if (before.role === 'arriving' && before.moveId === moveId) return store.get(guest.uuid)
    if (!changeOwnership(store, guest.uuid, { kind: 'expect', moveId, generation })) throw newerKnown()
    writeDetails(store, guest.uuid, { fromHostId, ...reserve() } satisfies ArrivalDetails)
    return store.get(guest.uuid)
  }

  /**
   * Removes the remains of an earlier move to this host if the gateway has not reported the end of that move.
   * @throws {BerthError} `guest_moving` if the request is older than that move, or an operation of the guest has not
   * ended
   */
  async #discardOlder(
    uuid: string,
    { moveId, generation }: Pick<ExpectGuestRequest, 'moveId' | 'generation'>,
  ): Promise<void> {
    const { context } = this.parts
    const { store } = context
    const known = readOwnership(store, uuid)
    if (known.role === 'arriving' && known.moveId === moveId) return
    if (!planOwnership(known, { kind: 'expect', moveId, generation })) throw newerKnown()
    // An earlier move may have taken the guest away from this host. The operation of the earlier move could still
    // delete the arriving guest.
    if (this.parts.busy(uuid)) throw conflict('guest_moving', 'an earlier task of the container has not ended yet')
    await this.live.endArriving(uuid)
    store.changes.transaction(() => {
      store.remove(uuid)
      context.history.prune()
    })
    await removeVolumes(context, uuid)
  }
}

/** @throws {BerthError} `invalid_state` if this host has an old copy of the guest */
function refuseOldCopy(store: GuestStore, uuid: string): void {
  if (readOwnership(store, uuid).role === 'fenced')
    throw conflict('invalid_state', 'the target host has an old copy of the container: delete this copy first')
}

function newerKnown(): BerthError {
  return conflict(
    'guest_moving',
    'the request is outdated: the gateway has since decided again which host owns the container',
  )
}
