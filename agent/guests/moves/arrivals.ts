import type { AppointOwnerRequest, ExpectGuestRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { BerthError, conflict, notFound } from '../../../shared/errors.js'
import { checkPortMapping } from '../../../shared/port-mapping-rules.js'
import { readListeningPorts } from '../../network/ports.js'
import { checkRoom } from '../../storage/room.js'
import type { BackupContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import { changeOwnership, readDetails, readOwnership, writeDetails } from './change-ownership.js'
import { planOwnership, type OwnershipChange } from '../ownership/plan-ownership.js'
import { isAllowedToRun } from '../policy/policy.js'
import { checkAllocation } from '../create/allocation.js'
import { checkCapacity, type HostCapacity } from '../resources/capacity.js'
import type { GuestRecord } from '../record/record.js'
import { networkOf } from '../resources/network.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { checkManifest } from './check-manifest.js'
import { sealManifest, type Manifest } from './manifest.js'
import type { MovedTraffic } from './move-input.js'
import type { MovedMapping } from './plan-arrival.js'
import { readReceived } from './received-disks.js'
import {
  chooseMappings,
  parseArriving,
  refuseOtherAddresses,
  reserveArrival,
  type ArrivingGuest,
} from './reserve-arrival.js'

const gib = 1024 ** 3

/** Details of a move that the target host stores as JSON, without secrets in clear text. */
interface ArrivalDetails {
  readonly fromHostId: string
  readonly mappings: readonly MovedMapping[]
  /** Changes that the guest's record gets if this host becomes the owner. Undefined until the manifest was received. */
  readonly arrived?: Pick<Manifest, 'limits' | 'trafficCount' | 'isWanted'> & ReturnType<typeof sealManifest>
  /** Received snapshot from which this host makes the guest's disk. */
  readonly snapshot?: string
}

export interface ArrivalsParts {
  readonly context: BackupContext
  readonly capacity: HostCapacity
  /** True if an operation of the guest is pending or running on this host. */
  readonly busy: (uuid: string) => boolean
  /** Queues the start of a guest. */
  readonly start: (uuid: string) => void
  /** Stores the traffic of a guest that has arrived. Joins the caller's transaction. */
  readonly putTraffic: (uuid: string, traffic: MovedTraffic) => void
}

/** Addresses and ports that a guest gets on this host. */
export type ReservedNetwork = Pick<GuestRecord, 'portMappings' | 'publicIpv4s' | 'ipv6Addresses' | 'ipv4'>

/** The identity of a transfer, as its ticket names it. */
export interface TransferIdentity {
  readonly moveId: string
  readonly fromHostId: string
  readonly uuid: string
}

/** Guests that other hosts send to this host. */
export class Arrivals {
  constructor(private readonly parts: ArrivalsParts) {}

  /**
   * Reserves what the arriving guest needs on this host. Without a move id, only checks that this is possible.
   * @throws {BerthError} `guest_moving`, `name_conflict`, `resource_exhausted`, `unsupported`, `invalid_field`
   */
  async expect(request: ExpectGuestRequest): Promise<ReservedNetwork> {
    const guest = parseArriving(request.guest)
    const { context, capacity } = this.parts
    const { virtualization } = guest.spec
    if (!context.machines.findDriver(virtualization)) {
      const kind = virtualization === 'kvm' ? 'virtual machines' : 'LXC containers'
      throw new BerthError('invalid', 'unsupported', `the target host cannot run ${kind}`)
    }
    checkCapacity(guest.spec.limits, capacity)
    const disk = await capacity.readDisk()
    checkRoom(disk, guest.spec.limits.diskGb * gib)
    const listening = await readListeningPorts()
    const reserve = (): MovedMapping[] => {
      const { overcommit } = request
      checkAllocation(context.store.list(), guest.spec.limits, { capacity, disk, overcommit })
      return reserveArrival(context, guest, listening)
    }
    if (request.moveId === '') return this.#tryReserve(guest, reserve)
    return context.store.mutex.run(guest.uuid, async () => {
      await this.#discardOlder(guest.uuid, request)
      return context.store.changes.transaction(() => this.#reserve(guest, request, reserve))
    })
  }

  /** Makes the reservation in a transaction and rolls it back, to check whether it would succeed. */
  #tryReserve(guest: ArrivingGuest, reserve: () => unknown): ReservedNetwork {
    const { store } = this.parts.context
    let found: ReservedNetwork | undefined
    const takeBack = new Error('only checked')
    try {
      store.changes.transaction(() => {
        reserve()
        found = shown(store.get(guest.uuid))
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
    reserve: () => MovedMapping[],
  ): ReservedNetwork {
    const { store } = this.parts.context
    const before = readOwnership(store, guest.uuid)
    if (before.role === 'arriving' && before.moveId === moveId) return shown(store.get(guest.uuid))
    if (!changeOwnership(store, guest.uuid, { kind: 'expect', moveId, generation })) throw newerKnown()
    const mappings = reserve()
    writeDetails(store, guest.uuid, { fromHostId, mappings } satisfies ArrivalDetails)
    return shown(store.get(guest.uuid))
  }

  /**
   * Removes the remains of an earlier move to this host. The gateway never reported the end of that move to this host.
   * @throws {BerthError} `guest_moving` if the request is older than that move, or an operation still uses the remains
   */
  async #discardOlder(
    uuid: string,
    { moveId, generation }: Pick<ExpectGuestRequest, 'moveId' | 'generation'>,
  ): Promise<void> {
    const { store, volumes } = this.parts.context
    const known = readOwnership(store, uuid)
    if (known.role === 'arriving' && known.moveId === moveId) return
    if (!planOwnership(known, { kind: 'expect', moveId, generation })) throw newerKnown()
    // An operation of an earlier move away from this host may be pending and then delete the guest that arrives now.
    if (this.parts.busy(uuid)) throw conflict('guest_moving', 'an earlier task of the container has not ended yet')
    store.remove(uuid)
    await volumes.remove(uuid)
  }

  /** @throws {BerthError} `guest_moving` unless this host expects the guest by exactly this transfer */
  check({ moveId, fromHostId, uuid }: TransferIdentity): void {
    const { store } = this.parts.context
    const known = readOwnership(store, uuid)
    const { fromHostId: expected } = readDetails(store, uuid) as ArrivalDetails
    if (known.role !== 'arriving' || known.moveId !== moveId || expected !== fromHostId)
      throw conflict('guest_moving', 'the target host does not expect the container from this host in this move')
  }

  /**
   * Checks a manifest without storing it. Also checks whether this host can run the received system.
   * @throws {BerthError} `unsupported`, and the errors of `checkManifest` in check-manifest.ts
   */
  async checkManifest({ uuid }: TransferIdentity, rawManifest: string): Promise<Manifest> {
    const { context, capacity } = this.parts
    const { store, machines, volumes } = context
    const newest = Object.keys(readReceived(store, uuid)).at(-1)
    // The received volume states which firmware a virtual machine needs.
    if (newest !== undefined)
      await machines.driverOf(store.get(uuid)).checkReceived?.(volumes.snapshotPathOf(uuid, newest))
    return checkManifest({ store, capacity }, uuid, rawManifest)
  }

  /** Makes the guest's disk from a received snapshot, and stores the contents of the manifest. May be repeated. */
  async finish(transfer: TransferIdentity, snapshot: string, rawManifest: string): Promise<void> {
    const { context } = this.parts
    const { store, volumes, machines } = context
    const { uuid } = transfer
    const manifest = await this.checkManifest(transfer, rawManifest)
    const listening = await readListeningPorts()
    store.changes.transaction(() => {
      this.check(transfer)
      this.#journalManifest(uuid, { manifest, snapshot }, listening)
    })
    const record = store.get(uuid)
    const spec = { ...record.spec, limits: manifest.limits }
    const limitBytes = volumeLimitOf(machines, { ...record, ...manifest.document, spec })
    await volumes.prepare(uuid, { snapshot }, limitBytes)
    await volumes.exchange(uuid)
    const kept = new Set([snapshot, ...manifest.document.snapshots.map(({ id }) => id)])
    for (const id of await volumes.listSnapshots(uuid)) if (!kept.has(id)) await volumes.deleteSnapshot(uuid, id)
  }

  #journalManifest(
    uuid: string,
    { manifest, snapshot }: { manifest: Manifest; snapshot: string },
    listening: ReadonlySet<string>,
  ): void {
    const { context } = this.parts
    const { store } = context
    const record = store.get(uuid)
    refuseOtherAddresses(manifest, record)
    const details = readDetails(store, uuid) as ArrivalDetails
    for (const _ of record.portMappings) store.removeMapping(uuid, store.getPosition(uuid, 0))
    const portMappings = manifest.portMappings.map((mapping) => checkPortMapping(mapping))
    const chosen = chooseMappings(
      context,
      { portMappings },
      { listening, reserved: details.mappings, addresses: record },
    )
    for (const [position, mapping] of chosen.entries()) store.putMapping(uuid, position, mapping)
    const { limits, trafficCount, isWanted } = manifest
    const arrived = { limits, trafficCount, isWanted, ...sealManifest(context, uuid, manifest) }
    writeDetails(store, uuid, { ...details, arrived, snapshot } satisfies ArrivalDetails)
  }

  /**
   * Applies a decision of the gateway: this host owns the guest, or not. The decision may arrive late or repeatedly.
   * @throws {BerthError} `not_found` if this host should be the owner, but does not have the guest completely
   */
  async appoint(request: AppointOwnerRequest): Promise<void> {
    const uuid = parseUuid('uuid', request.uuid)
    await this.parts.context.store.mutex.run(uuid, () => this.#apply(uuid, request))
    if (request.isOwner) this.#refuseMissing(uuid)
  }

  /** @throws {BerthError} `not_found` unless this host has the guest and owns it */
  #refuseMissing(uuid: string): void {
    const { store } = this.parts.context
    const { role } = readOwnership(store, uuid)
    if (!store.find(uuid) || (role !== 'owner' && role !== 'leaving')) throw notFound('container')
  }

  async #apply(
    uuid: string,
    { generation, isOwner }: Pick<AppointOwnerRequest, 'generation' | 'isOwner'>,
  ): Promise<void> {
    const { store, volumes } = this.parts.context
    const { before, change } = store.changes.transaction(() => this.#journalOwner(uuid, { generation, isOwner }))
    if (change?.effect === 'fence') await this.#fence(uuid)
    // A target removes its received data here. A source does not: the operation of the move deletes its guest.
    if (change?.effect === 'discard' && before === 'arriving') await volumes.remove(uuid)
    const record = store.find(uuid)
    if (change?.effect === 'start' && before === 'arriving' && record && mayRun(record)) this.parts.start(uuid)
    await this.#forgetReceived(uuid)
  }

  #journalOwner(uuid: string, event: { generation: number; isOwner: boolean }) {
    const { store } = this.parts.context
    const { role: before } = readOwnership(store, uuid)
    const change: OwnershipChange | undefined = changeOwnership(store, uuid, { kind: 'appoint', ...event })
    if (before === 'arriving' && change?.effect === 'start') this.#takeOver(uuid)
    if (before === 'arriving' && change?.effect === 'discard') store.remove(uuid)
    return { before, change }
  }

  #takeOver(uuid: string): void {
    const { store } = this.parts.context
    const { arrived, snapshot } = readDetails(store, uuid) as ArrivalDetails
    if (!arrived) throw notFound('completely received copy of the container')
    const { document, login, limits, trafficCount, isWanted } = arrived
    store.update(uuid, { ...document, login, limits, status: 'stopped', wanted: isWanted ? 'running' : 'stopped' })
    if (trafficCount) this.parts.putTraffic(uuid, trafficCount)
    writeDetails(store, uuid, { snapshot })
  }

  /** Deletes the snapshot from which the disk of an arrived guest was made. */
  async #forgetReceived(uuid: string): Promise<void> {
    const { store, volumes } = this.parts.context
    const { snapshot } = readDetails(store, uuid) as Partial<ArrivalDetails>
    if (readOwnership(store, uuid).role !== 'owner' || snapshot === undefined) return
    await volumes.deleteSnapshot(uuid, snapshot)
    writeDetails(store, uuid, {})
  }

  /** Stops a guest that belongs to another host, and keeps its disk. */
  async #fence(uuid: string): Promise<void> {
    const { store, machines, network, config } = this.parts.context
    const reason = 'the container belongs to another host; this host keeps an old copy of its disk'
    store.update(uuid, { status: 'error', statusReason: reason, wanted: 'stopped' })
    const record = store.find(uuid)
    if (!record) return
    await machines.driverOf(record).kill(machines.of(record))
    await network.detach(networkOf(record, config))
  }
}

function newerKnown(): BerthError {
  return conflict(
    'guest_moving',
    'the request is outdated: the gateway has since decided again which host owns the container',
  )
}

function shown({ portMappings, publicIpv4s, ipv6Addresses, ipv4 }: GuestRecord): ReservedNetwork {
  return { portMappings, publicIpv4s, ipv6Addresses, ipv4 }
}

function mayRun(record: GuestRecord): boolean {
  return record.wanted === 'running' && isAllowedToRun(record)
}
