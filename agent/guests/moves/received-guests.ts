import { conflict } from '../../../shared/errors.js'
import { checkPortMapping } from '../../../shared/port-mapping-rules.js'
import { readListeningPorts } from '../../network/ports.js'
import { listCopied } from '../record/copy-journal.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { noteArrival, readArrival, type ArrivalsParts, type TransferIdentity } from './arrival-details.js'
import { readOwnership } from './change-ownership.js'
import { checkManifest } from './check-manifest.js'
import type { LiveArrivals } from './live-target.js'
import { sealManifest, type Manifest } from './manifest.js'
import { readReceived } from './received-disks.js'
import { chooseMappings, refuseOtherAddresses } from './reserve-arrival.js'

const gib = 1024 ** 3

/** Makes guests from the disks and manifests that other hosts send. */
export class ReceivedGuests {
  constructor(
    private readonly parts: Pick<ArrivalsParts, 'context' | 'capacity'>,
    private readonly live: LiveArrivals,
  ) {}

  /** @throws {BerthError} `guest_moving` if this host does not expect the guest from exactly this transfer */
  check({ moveId, fromHostId, uuid }: TransferIdentity): void {
    const { store } = this.parts.context
    const known = readOwnership(store, uuid)
    const { fromHostId: expected } = readArrival(store, uuid)
    if (known.role !== 'arriving' || known.moveId !== moveId || expected !== fromHostId)
      throw conflict('guest_moving', 'the target host does not expect the container from this host in this move')
  }

  /**
   * Checks the newest received snapshot and a manifest. Does not store the manifest.
   * @throws {BerthError} the errors of `checkManifest` in check-manifest.ts, and of the driver
   */
  async checkNewest(transfer: TransferIdentity, rawManifest: string): Promise<void> {
    const newest = Object.keys(readReceived(this.parts.context.store, transfer.uuid)).at(-1)
    await this.#checkManifest(transfer, newest, rawManifest)
  }

  /** Like `checkManifest`, but also checks whether this host can run the system on the received volume. */
  async #checkManifest(
    { uuid }: TransferIdentity,
    snapshot: string | undefined,
    rawManifest: string,
  ): Promise<Manifest> {
    const { context, capacity } = this.parts
    const { store, machines, volumes } = context
    const manifest = await checkManifest({ store, capacity }, uuid, rawManifest)
    if (snapshot === undefined) return manifest
    const path = volumes.snapshotPathOf(uuid, snapshot)
    await machines.driverOf(store.get(uuid)).checkReceived?.(path, manifest.limits.diskGb * gib)
    return manifest
  }

  /**
   * Prepares the arrival of a running guest, whose memory follows. Can be repeated.
   * @param facts the driver's facts about the guest on its present host
   * @throws {BerthError} `offline_required` if the guest cannot continue on this host
   */
  async prepare(transfer: TransferIdentity, snapshot: string, facts: string): Promise<void> {
    const { store } = this.parts.context
    await store.mutex.run(transfer.uuid, () => {
      this.check(transfer)
      noteArrival(store, transfer.uuid, { isLive: true })
      return this.live.prepare(store.get(transfer.uuid), snapshot, facts)
    })
  }

  /** Makes the guest's disk from a received snapshot, and stores the contents of the manifest. Can be repeated. */
  async finish(
    transfer: TransferIdentity,
    { snapshot, live }: { readonly snapshot: string; readonly live: boolean },
    rawManifest: string,
  ): Promise<void> {
    const { store } = this.parts.context
    const { uuid } = transfer
    const manifest = await this.#checkManifest(transfer, snapshot, rawManifest)
    const listening = await readListeningPorts()
    store.changes.transaction(() => {
      this.check(transfer)
      this.#journalManifest(uuid, { manifest, snapshot }, listening)
    })
    if (live) await this.live.adoptDisk(uuid, snapshot)
    else await this.#makeDisk(uuid, snapshot, manifest)
  }

  /** Makes the disk of a guest that is stopped, and deletes received snapshots that do not stay with the guest. */
  async #makeDisk(uuid: string, snapshot: string, { limits, document }: Manifest): Promise<void> {
    const { store, volumes, machines } = this.parts.context
    const record = store.get(uuid)
    const limitBytes = volumeLimitOf(machines, { ...record, ...document, spec: { ...record.spec, limits } })
    // The source may have begun a live move before its rollback. The process of that move still uses the volume.
    await machines.driverOf(record).kill(machines.of(record))
    await volumes.prepare(uuid, { snapshot }, limitBytes)
    await volumes.exchange(uuid)
    const kept = new Set([snapshot, ...document.snapshots.map(({ id }) => id), ...listCopied(store, uuid)])
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
    const { mappings = [] } = readArrival(store, uuid)
    for (const _ of record.portMappings) store.removeMapping(uuid, store.getPosition(uuid, 0))
    const portMappings = manifest.portMappings.map((mapping) => checkPortMapping(mapping))
    const chosen = chooseMappings(context, { portMappings }, { listening, reserved: mappings, addresses: record })
    for (const [position, mapping] of chosen.entries()) store.putMapping(uuid, position, mapping)
    const { limits, trafficCount, isWanted } = manifest
    const arrived = { limits, trafficCount, isWanted, ...sealManifest(context, uuid, manifest) }
    noteArrival(store, uuid, { arrived, snapshot })
  }
}
