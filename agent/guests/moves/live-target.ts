import type { Socket } from 'node:net'
import { offlineRequired } from '../../../shared/move-rules.js'
import type { LiveMoves } from '../../drivers/contract.js'
import type { BackupContext, GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { readOwnership } from './change-ownership.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'

type Machines = Pick<GuestContext, 'store' | 'machines'>

/** Time in ms within which the process of an arriving guest must be ready for its memory. */
const prepareTimeoutMs = 60_000

/**
 * Describes a running guest of this host for the target of a move.
 * @throws {BerthError} `offline_required` if the guest cannot move while it runs
 */
export async function describeLive({ store, machines }: Machines, uuid: string): Promise<string> {
  const record = store.get(uuid)
  return liveOf(machines, record).describe(machines.of(record))
}

/** Handles arriving guests that run during their move. */
export class LiveArrivals {
  constructor(private readonly context: BackupContext) {}

  /** @throws {BerthError} `offline_required` if a running guest with these facts cannot continue on this host */
  async refuseObstacles(record: GuestRecord, facts: string): Promise<void> {
    const { machines } = this.context
    const obstacles = await liveOf(machines, record).findObstacles(machines.of(record), facts)
    if (obstacles.length > 0) throw offlineRequired(obstacles)
  }

  /** Makes the guest's disk from a snapshot, and starts the process that receives the guest's memory. */
  async prepare(record: GuestRecord, snapshot: string, facts: string): Promise<void> {
    const { machines, volumes } = this.context
    const { uuid } = record
    const [driver, machine] = [machines.driverOf(record), machines.of(record)]
    await this.refuseObstacles(record, facts)
    await driver.kill(machine) // an earlier preparation uses the volume that is replaced
    await volumes.prepare(uuid, { snapshot }, volumeLimitOf(machines, record))
    await volumes.exchange(uuid)
    await driver.configure(machine)
    await liveOf(machines, record).receive(machine, facts, AbortSignal.timeout(prepareTimeoutMs))
  }

  /** Opens the connection that receives the memory of a guest whose arrival was prepared. */
  async openMemory(uuid: string): Promise<Socket> {
    const { store, machines } = this.context
    const record = store.get(uuid)
    return liveOf(machines, record).connect(machines.of(record))
  }

  /** Gives the disk the content of a snapshot in place, because the process of the prepared guest has it open. */
  async adoptDisk(uuid: string, snapshot: string): Promise<void> {
    const { store, machines, volumes } = this.context
    const record = store.get(uuid)
    await liveOf(machines, record).adopt(machines.of(record), volumes.snapshotPathOf(uuid, snapshot))
  }

  /** @throws {BerthError} `memory_not_sent` if this host does not have all memory of the guest */
  async confirm(uuid: string): Promise<void> {
    const { store, machines } = this.context
    const record = store.get(uuid)
    await liveOf(machines, record).confirm(machines.of(record))
  }

  /**
   * Ends the process of an arriving guest whose move has failed. Must be called before the guest is removed from the
   * journal. If the agent is killed in between, the next agent then repeats the call.
   */
  async endArriving(uuid: string): Promise<void> {
    const { store } = this.context
    const record = store.find(uuid)
    if (record && readOwnership(store, uuid).role === 'arriving') await this.end(record)
  }

  /** Ends the process that has received the memory of a guest. */
  async end(record: GuestRecord): Promise<void> {
    const driver = this.context.machines.driverOf(record)
    if (!driver.live) return
    await driver.kill(this.context.machines.of(record))
    await driver.delete(this.context.machines.of(record))
  }
}

function liveOf(machines: Machines['machines'], record: GuestRecord): LiveMoves {
  const live = machines.findDriver(record.spec.virtualization)?.live
  if (!live) throw offlineRequired(['the target host does not support live moves of this guest'])
  return live
}
