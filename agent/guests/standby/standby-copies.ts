import type { ExpectStandbyRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import { checkInteger } from '../../../shared/field-checks.js'
import { limits } from '../../../shared/guest-rules.js'
import { hostIdPattern } from '../../../shared/identity.js'
import { checkRoom } from '../../storage/room.js'
import type { GuestContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import type { TransferIdentity } from '../moves/arrival-details.js'
import { readOwnership } from '../moves/change-ownership.js'
import type { DiskJournal } from '../moves/disk-journal.js'
import { streamLengthOf } from '../moves/received-disks.js'
import type { HostCapacity } from '../resources/capacity.js'
import { CopyJournal, type StandbyCopy } from '../record/copy-journal.js'
import { sortStandbySnapshots } from '../record/standby-ids.js'
import { decodeFirewall } from '../snapshots/backup-settings.js'

const gib = 1024 ** 3
const hostId = new RegExp(hostIdPattern)

export interface StandbyCopiesParts {
  readonly context: Pick<GuestContext, 'store' | 'volumes' | 'transfers' | 'machines' | 'log' | 'history'>
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/** Stores copies of the disks of guests on other hosts. */
export class StandbyCopies {
  readonly journal: CopyJournal

  constructor(private readonly parts: StandbyCopiesParts) {
    this.journal = new CopyJournal(parts.context.store.changes.db)
  }

  /**
   * Prepares this host for a copy. Can be repeated.
   * @throws {BerthError} `invalid_field`, `invalid_state`, `guest_moving`, `unsupported`, `resource_exhausted`
   */
  async expect({ dryRun, generation, ...request }: ExpectStandbyRequest): Promise<void> {
    const wanted = parseExpected(request)
    const { context, capacity } = this.parts
    const { uuid } = wanted
    if (!context.machines.findDriver('lxc'))
      throw new BerthError('invalid', 'unsupported', 'the host cannot run LXC containers')
    checkRoom(await capacity.readDisk(), wanted.diskGb * gib)
    await context.store.mutex.run(uuid, async () => {
      await this.#refuseGuest(uuid, generation)
      if (dryRun) return
      const known = this.journal.find(uuid)
      if (known && (known.standbyId !== wanted.standbyId || known.isRemoving)) await this.#remove(uuid)
      this.#refuseRecorded(uuid)
      context.store.changes.transaction(() => this.journal.put(wanted))
    })
  }

  async #refuseGuest(uuid: string, generation: number): Promise<void> {
    const { store, volumes } = this.parts.context
    this.#refuseRecorded(uuid)
    if (await volumes.has(uuid)) throw hasGuest()
    if (readOwnership(store, uuid).generation > generation)
      throw conflict('guest_moving', 'the request is outdated: the host knows a newer owner of the container')
  }

  #refuseRecorded(uuid: string): void {
    if (this.parts.context.store.find(uuid)) throw hasGuest()
  }

  /** Returns the journal of received snapshots if the ticket of a transfer is for a standby. */
  openJournal(transfer: TransferIdentity): DiskJournal | undefined {
    const { uuid, moveId: standbyId, fromHostId } = transfer
    if (this.journal.find(uuid)?.standbyId !== standbyId) return undefined
    const get = (): StandbyCopy => {
      const copy = this.journal.find(uuid)
      if (copy?.standbyId !== standbyId || copy.fromHostId !== fromHostId || copy.isRemoving) throw notExpected()
      this.#refuseRecorded(uuid)
      return copy
    }
    const put = (received: StandbyCopy['received'], firewall?: string): void => {
      if (!this.journal.putReceived(uuid, standbyId, received, firewall)) throw notExpected()
    }
    return {
      isForStandby: true,
      check: () => void get(),
      listComplete: () => this.#listComplete(get()),
      has: (id) => Object.hasOwn(get().received, id),
      forget: (id) => {
        if (sortStandbySnapshots([id], standbyId).length === 0) throw conflict('bad_stream', foreignText)
        const { [id]: _again, ...received } = get().received
        put(received)
      },
      maxBytes: () => streamLengthOf(get().diskGb * gib),
      checkSpace: async (id) => {
        const counted = await this.parts.context.transfers.countReceived(uuid, id)
        if (counted <= maxCopyBytes(get().diskGb)) return
        put({})
        await this.#listComplete(get())
        throw conflict('bad_stream', tooLargeText)
      },
      note: ({ id, bytes, firewall }) => put({ [id]: bytes }, checkRecorded(firewall)),
      ended: () => this.#tidy(uuid),
    }
  }

  /** Returns complete snapshots. Deletes everything else in the directory of the guest's snapshots. */
  #listComplete({ uuid, received }: StandbyCopy): Promise<string[]> {
    return this.parts.context.transfers.listComplete(uuid, new Set(Object.keys(received)))
  }

  /** Deletes data of a transfer whose standby was removed during the transfer. */
  async #tidy(uuid: string): Promise<void> {
    const { store, transfers } = this.parts.context
    if (!this.journal.find(uuid) && !store.find(uuid)) await transfers.discard(uuid)
  }

  /** Returns the copies that are not being removed, with the ids of their complete snapshots. */
  async list(): Promise<(StandbyCopy & { readonly snapshot: string | undefined })[]> {
    const { volumes } = this.parts.context
    const copies = this.journal.list().filter(({ isRemoving }) => !isRemoving)
    return Promise.all(
      copies.map(async (copy) => {
        const present = await volumes.listSnapshots(copy.uuid)
        return { ...copy, snapshot: Object.keys(copy.received).find((id) => present.includes(id)) }
      }),
    )
  }

  /** Removes the copy of a standby. Does nothing if the host has no such copy. */
  async remove(uuid: string, standbyId: string): Promise<void> {
    await this.parts.context.store.mutex.run(uuid, async () => {
      if (this.journal.find(uuid)?.standbyId === standbyId) await this.#remove(uuid)
    })
  }

  /** Removes a copy. The journal is written first, so that the next start of the agent finishes the removal. */
  async #remove(uuid: string): Promise<void> {
    const { store, transfers, volumes, history } = this.parts.context
    const copy = this.journal.find(uuid)
    if (!copy) return
    store.changes.transaction(() => this.journal.markRemoving(uuid))
    if (store.find(uuid)) {
      const left = sortStandbySnapshots(await volumes.listSnapshots(uuid), copy.standbyId)
      for (const id of left) await volumes.deleteSnapshot(uuid, id)
    } else await transfers.discard(uuid)
    store.changes.transaction(() => {
      this.journal.forget(uuid)
      history.prune()
    })
  }

  /** Finishes removals, and deletes partial snapshots. Called at the start of the agent, before transfers begin. */
  async sweep(): Promise<void> {
    const { store, log } = this.parts.context
    for (const copy of this.journal.list())
      try {
        if (copy.isRemoving) await this.#remove(copy.uuid)
        else if (!store.find(copy.uuid)) await this.#listComplete(copy)
      } catch (err) {
        log.warn({ err, guest: copy.uuid }, 'could not tidy up the copy of a standby; the next start tries again')
      }
  }

  /** @throws {BerthError} `standby_missing` if the journal has no complete copy of this standby */
  refuseMissing(uuid: string, standbyId: string): void {
    const copy = this.journal.find(uuid)
    if (copy?.standbyId !== standbyId || copy.isRemoving || Object.keys(copy.received).length === 0) throw missing()
  }

  /** Returns the complete snapshot of a copy, and the firewall of its guest. @throws {BerthError} `standby_missing` */
  async getComplete(uuid: string, standbyId: string): Promise<{ snapshot: string; firewall: string }> {
    const copy = (await this.list()).find((one) => one.uuid === uuid && one.standbyId === standbyId)
    if (copy?.snapshot === undefined) throw missing()
    return { snapshot: copy.snapshot, firewall: copy.firewall }
  }
}

/** @throws {BerthError} `invalid_field` */
function parseExpected(request: Omit<ExpectStandbyRequest, 'dryRun' | 'generation'>) {
  const { fromHostId } = request
  if (!hostId.test(fromHostId)) throw invalidField('from_host_id', 'from_host_id: must be the id of a host')
  return {
    uuid: parseUuid('uuid', request.uuid),
    standbyId: parseUuid('standby_id', request.standbyId),
    fromHostId,
    diskGb: checkInteger('disk_gb', request.diskGb, limits.diskGb),
  }
}

/** @throws {BerthError} `bad_stream` if the text is not a recorded firewall */
function checkRecorded(firewall = ''): string {
  try {
    if (firewall !== '') decodeFirewall(firewall)
    return firewall
  } catch (cause) {
    throw Object.assign(conflict('bad_stream', 'the other host sent a damaged firewall'), { cause })
  }
}

/**
 * Each stream has its own limit, so a hostile host could enlarge the copy with many increments. The former state of the
 * disk counts until its space is free.
 */
export function maxCopyBytes(diskGb: number): number {
  return 2 * streamLengthOf(diskGb * gib)
}

const tooLargeText = 'the copy exceeded its maximum size and was discarded: the next increment sends the whole disk'
const foreignText = 'the other host sent a snapshot that does not belong to the standby'

function notExpected(): BerthError {
  return conflict('guest_moving', 'the host does not expect a copy of the container from this host')
}

function missing(): BerthError {
  return conflict('standby_missing', 'the host has no complete copy of the container')
}

function hasGuest(): BerthError {
  return conflict('invalid_state', 'the host has the container, or an old copy of it: delete the old copy first')
}
