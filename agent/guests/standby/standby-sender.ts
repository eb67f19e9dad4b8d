import type { Duplex } from 'node:stream'
import type { SyncStandbyRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { BerthError, conflict, toBerthError } from '../../../shared/errors.js'
import type { SendProcess } from '../../host/disk/btrfs-stream.js'
import { refuseFull } from '../../storage/room.js'
import type { BackupContext, GuestTransfers } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import { refuseDeleted } from '../deletion/plan-deletion.js'
import { refuseNotOwned } from '../moves/change-ownership.js'
import { connectTarget } from '../moves/connect-target.js'
import { DiskSender } from '../moves/disk-sender.js'
import { findParent } from '../moves/plan-copy-rounds.js'
import { readTicketKey } from '../moves/ticket-key.js'
import type { GuestRecord, GuestStandby } from '../record/record.js'
import type { HostCapacity } from '../resources/capacity.js'
import { recordFirewall } from '../snapshots/backup-settings.js'
import { awaitSettled, takeHidden } from '../snapshots/snapshot-space.js'
import { planResult, type StandbyResult } from './plan-standby.js'
import { listCopied } from '../record/copy-journal.js'
import { isStandbySnapshot, nextStandbySnapshot, sortStandbySnapshots, standbyPrefix } from '../record/standby-ids.js'

/** The target answers after a snapshot only when the snapshot is durable. */
const patience = { takeMs: 120_000, answerMs: 600_000 }

export interface StandbySenderParts {
  readonly context: Pick<
    BackupContext,
    'config' | 'store' | 'volumes' | 'transfers' | 'machines' | 'log' | 'now' | 'history'
  >
  readonly capacity: Pick<HostCapacity, 'readDisk'>
  /** True if an operation of the guest is pending or running. */
  readonly busy: (uuid: string) => boolean
  /** Connects to the host of the standby. Default: with mutual TLS. */
  readonly connect?: typeof connectTo
  /** Reads the private key of the ticket. Default: the key of this agent. */
  readonly readKey?: typeof readTicketKey
}

interface Run {
  readonly standbyId: string
  readonly end: AbortController
  readonly ended: Promise<void>
}

/** One increment: the order of the gateway, with the private key of its ticket. */
type Increment = SyncStandbyRequest & { readonly key: string }

/** Sends increments of guests' disks to the hosts of their standbys. The gateway orders each increment. */
export class StandbySender {
  readonly #runs = new Map<string, Run>()
  #isClosed = false

  constructor(private readonly parts: StandbySenderParts) {}

  /**
   * Begins an increment, and does not wait for its end. The guest's record then shows the result.
   * @throws {BerthError} `not_found`, `guest_busy`, `invalid_state`, `key_renewed`
   */
  begin(order: SyncStandbyRequest): void {
    const { context, busy } = this.parts
    const uuid = parseUuid('uuid', order.uuid)
    refuseUnfit(context.store.get(uuid), order.standbyId)
    if (this.#isClosed || this.#runs.has(uuid) || busy(uuid))
      throw conflict('guest_busy', 'an increment or a task of the container runs at present')
    if (order.refusal !== '') return this.#note(order, { error: order.refusal })
    const { readKey = readTicketKey } = this.parts
    const key = readKey(context.config, order.ticket)
    const end = new AbortController()
    const ended = this.#run({ ...order, uuid, key }, end.signal)
      .catch((err: unknown) => this.parts.context.log.error({ err, guest: uuid }, 'could not end an increment'))
      .finally(() => this.#runs.delete(uuid))
    this.#runs.set(uuid, { standbyId: order.standbyId, end, ended })
  }

  /** Runs an increment, and records its result. */
  async #run(order: Increment, signal: AbortSignal): Promise<void> {
    try {
      this.#note(order, await this.#send(order, signal))
    } catch (err) {
      if (signal.aborted) return
      this.parts.context.log.warn({ err, guest: order.uuid }, 'could not send an increment to the host of a standby')
      this.#note(order, { error: toBerthError(err, 'could not send the increment').message })
    }
    await this.#settle(order.uuid, signal)
  }

  async #send(order: Increment, signal: AbortSignal): Promise<StandbyResult> {
    const { context, capacity } = this.parts
    const { uuid, standbyId } = order
    refuseFull(await capacity.readDisk())
    const { hostId, bandwidthMbps } = this.#standbyOf(order)
    const { connect = connectTo } = this.parts
    const socket = await connect(context.config.state_dir, hostId, order, signal)
    const own = ownSends(context.transfers)
    const sender = new DiskSender(socket, { transfers: own, uuid, bandwidthMbps, patience, onSent: () => undefined })
    try {
      const has = await sender.list()
      const older = await this.#dropUnsent(order, has)
      const id = nextStandbySnapshot([...older, ...has], standbyId)
      const { firewall, ...taken } = await this.#take(order, id)
      const sentBytes = await sender.sendDisk(id, findParent(older, has), firewall)
      await sender.sendHistory((after) => context.history.collect(uuid, after, ''))
      for (const old of older) await context.volumes.deleteSnapshot(uuid, old)
      return { ...taken, sentBytes }
    } finally {
      sender.close()
      await own.ended()
    }
  }

  /** Deletes snapshots that the other host does not have. @returns the remaining ones, oldest first */
  async #dropUnsent({ uuid, standbyId }: Increment, has: ReadonlySet<string>): Promise<string[]> {
    const { volumes } = this.parts.context
    const known = sortStandbySnapshots(await volumes.listSnapshots(uuid), standbyId)
    for (const id of known) if (!has.has(id)) await volumes.deleteSnapshot(uuid, id)
    return known.filter((id) => has.has(id))
  }

  /** Takes a snapshot. @returns its time, an upper bound of the bytes that it can retain, and the guest's firewall */
  #take(order: Increment, id: string): Promise<{ takenAtMs: number; takenBytes: number; firewall?: string }> {
    const { context } = this.parts
    return context.store.mutex.run(order.uuid, async () => {
      this.#standbyOf(order)
      const takenAtMs = context.now()
      const { retainedBytes: takenBytes } = await takeHidden(context, order.uuid, id)
      return { takenAtMs, takenBytes, ...recordFirewall(context.store.get(order.uuid)) }
    })
  }

  /** @throws {BerthError} `invalid_state` if the guest no longer has this standby */
  #standbyOf({ uuid, standbyId }: Pick<SyncStandbyRequest, 'uuid' | 'standbyId'>): GuestStandby {
    return refuseUnfit(this.parts.context.store.get(uuid), standbyId)
  }

  #note({ uuid, standbyId }: Pick<SyncStandbyRequest, 'uuid' | 'standbyId'>, result: StandbyResult): void {
    const { store, now } = this.parts.context
    const standby = store.find(uuid)?.standby
    if (standby?.standbyId === standbyId) store.update(uuid, { standby: planResult(standby, result, now()) })
  }

  /** Lowers the disk limit again, when the space of deleted snapshots is free. Otherwise the reconciler does so. */
  async #settle(uuid: string, signal: AbortSignal): Promise<void> {
    const { context } = this.parts
    try {
      if (context.store.find(uuid)) await awaitSettled(context, uuid, signal)
    } catch (err) {
      if (!signal.aborted) context.log.warn({ err, guest: uuid }, 'could not lower the disk limit of a guest again')
    }
  }

  /** Ends the running increment of a guest, and waits until nothing reads its snapshots. */
  async end(uuid: string): Promise<void> {
    const run = this.#runs.get(uuid)
    run?.end.abort(conflict('invalid_state', 'the increment was ended'))
    await run?.ended
  }

  /**
   * Deletes the guest's snapshots of standbys that it does not have any more. Keeps a copy on this host from which the
   * guest is being restored.
   */
  async discard(uuid: string): Promise<void> {
    const { store, volumes } = this.parts.context
    const standbyId = store.find(uuid)?.standby?.standbyId
    if (this.#runs.get(uuid)?.standbyId !== standbyId) await this.end(uuid)
    const copied = listCopied(store, uuid)
    const isOwn = (id: string): boolean => standbyId !== undefined && id.startsWith(standbyPrefix(standbyId))
    const left = (await volumes.listSnapshots(uuid)).filter(
      (id) => isStandbySnapshot(id) && !copied.has(id) && !isOwn(id),
    )
    for (const id of left) await volumes.deleteSnapshot(uuid, id)
    if (left.length > 0) await this.#settle(uuid, new AbortController().signal)
  }

  /** Deletes snapshots that a removed standby has left because the agent was killed. */
  async sweep(): Promise<void> {
    const { store, log } = this.parts.context
    for (const { uuid, ownership } of store.list())
      if (ownership.role === 'owner')
        await this.discard(uuid).catch((err: unknown) =>
          log.warn(
            { err, guest: uuid },
            'could not delete a snapshot of a removed standby; the next start tries again',
          ),
        )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#runs.keys()].map((uuid) => this.end(uuid)))
  }
}

/**
 * Remembers the programs that one increment starts. A move of the guest can send at the same time, and is not ended.
 * btrfs deletes no subvolume that is being sent, so `ended` waits until the programs of this increment have ended.
 */
function ownSends(transfers: Pick<GuestTransfers, 'send'>) {
  const processes: SendProcess[] = []
  return {
    send: (...args: Parameters<GuestTransfers['send']>): SendProcess => {
      const process = transfers.send(...args)
      processes.push(process)
      return process
    },
    ended: async (): Promise<void> => {
      for (const process of processes) process.kill()
      await Promise.all(processes.map(({ ended }) => ended.catch(() => undefined)))
    },
  }
}

function connectTo(
  stateDir: string,
  hostId: string,
  { toAddress: address, toSerials: serials, ticket, key }: Increment,
  signal: AbortSignal,
): Promise<Duplex> {
  return connectTarget(stateDir, { hostId, address, serials, ticket, key }, signal)
}

/** @throws {BerthError} `invalid_state` */
function refuseUnfit(record: GuestRecord, standbyId: string): GuestStandby {
  refuseNotOwned(record)
  refuseDeleted(record)
  if (['creating', 'deleting', 'error'].includes(record.status))
    throw conflict('invalid_state', `the container is ${record.status}`)
  if (record.standby?.standbyId !== standbyId)
    throw new BerthError('conflict', 'invalid_state', 'the container does not have this standby')
  return record.standby
}
