import { conflict } from '../../../shared/errors.js'
import { mayRun } from '../policy/policy.js'
import { readOwnership } from './change-ownership.js'
import { copyPaused, copyRunning, listRounds, sendRound, withSender } from './copy-disk.js'
import type { CopyParts, Move } from './copy-disk.js'
import { handOver } from './leave.js'
import { LivePauses } from './live-pauses.js'
import { LiveTransfer } from './live-transfer.js'
import { MemoryConnection, type LiveGuest } from './memory-connection.js'
import type { SentDisk } from './plan-copy-rounds.js'
import { refuseShortTicket } from './ticket-key.js'

/** Minimum time in ms for which the move's ticket must still be valid while the memory is sent. */
const ticketNeededMs = 10 * 60_000

/** Sends virtual machines while they run. Their memory passes through this agent, so a transfer ends with the agent. */
export class LiveSender {
  readonly #pauses: LivePauses

  constructor(
    private readonly parts: CopyParts,
    pauses?: LivePauses,
  ) {
    const { store, now } = parts.context
    this.#pauses = pauses ?? new LivePauses(store, now)
  }

  /**
   * Sends disk and memory until the guest is paused for the last part of disk and memory. Can be repeated.
   * @throws {BerthError} `offline_required`, `memory_not_sent`, `move_too_slow`, and the errors of `copyRunning`
   */
  async copy(step: Move): Promise<void> {
    const { context } = this.parts
    const guest = this.#find(step)
    this.#pauses.end(step)
    await guest.live.release(guest.machine)
    const facts = await guest.live.describe(guest.machine)
    await copyRunning(this.parts, step)
    const newest = (await listRounds(context, step)).at(-1)
    if (newest === undefined) throw conflict('volume_missing', 'the snapshot of the disk is missing on the source host')
    await withSender(context, step, { stage: 'preparing the target' }, (sender) => sender.prepare(newest, facts))
    const memory = await MemoryConnection.open(context, step, guest)
    try {
      const atMs = await this.#transfer(step, guest, memory).untilPaused()
      guest.live.notePaused(guest.machine)
      this.#pauses.begin(step, { ...guest, atMs, memory })
    } catch (error) {
      memory.close()
      // If the agent is stopping, no undo follows. The guest must therefore run again on this host now.
      await this.release(step).catch((err: unknown) =>
        step.log.warn({ err }, 'could not let the guest continue on this host; trying again'),
      )
      throw error
    }
  }

  #transfer(step: Move, guest: LiveGuest, memory: MemoryConnection): LiveTransfer {
    const { context } = this.parts
    const { now } = context
    const { ticket } = step.input
    const stage = 'copying changes of the disk'
    const sendChanges = (deadline: AbortSignal): Promise<SentDisk> =>
      withSender(context, step, { stage, deadline }, async (sender) =>
        sendRound(context, step, sender, await sender.list()),
      )
    const refuseTicket = (nowMs: number): void => refuseShortTicket(ticket, { nowMs, neededMs: ticketNeededMs })
    return new LiveTransfer({ ...guest, step, memory, sendRound: sendChanges, refuseTicket, now })
  }

  /** Returns the time in ms since 1970 at which the guest was paused. @throws {BerthError} `connection_lost` */
  pausedAt(step: Move): number {
    return this.#pauses.get(step).atMs
  }

  /** Sends the last changes of the disk and the rest of the memory. Afterwards, the target has the whole guest. */
  async finish(step: Move): Promise<void> {
    const { deadline, memory } = this.#pauses.get(step)
    const { live, machine } = this.#find(step)
    const signal = AbortSignal.any([step.signal, deadline])
    try {
      await copyPaused(this.parts, step, {
        deadline,
        check: () => live.checkPaused(machine, 'paused'),
        sendMemory: () => live.finishSending(machine, signal),
      })
    } finally {
      memory.close() // a driver that is still sending then gives up, and lets the guest run again
    }
  }

  /**
   * Records that the target has the whole guest. Then only the gateway decides where the guest runs. Can be repeated.
   * @throws {BerthError} `connection_lost`, or `memory_not_sent` if the guest possibly runs here again
   */
  async handOver(step: Move): Promise<void> {
    const { store } = this.parts.context
    if (readOwnership(store, step.subject.id).role !== 'leaving') return
    const { live, machine } = this.#find(step)
    this.#pauses.get(step)
    await live.checkPaused(machine, 'sent')
    this.#pauses.get(step) // throws if the pause has ended during the check
    handOver(store, step)
    this.#pauses.end(step)
  }

  /** Lets the guest run again. This host must own the guest. Can be repeated. */
  async release(step: Move): Promise<void> {
    this.#pauses.end(step)
    const { store, machines } = this.parts.context
    const record = store.find(step.subject.id)
    if (record) await machines.driverOf(record).live?.release(machines.of(record))
  }

  /** Like `release`, but ends the guest if it is no longer allowed to run. */
  async releaseOrEnd(step: Move): Promise<void> {
    const { store, machines } = this.parts.context
    const record = store.get(step.subject.id)
    if (mayRun(record)) return this.release(step)
    this.#pauses.end(step)
    await machines.driverOf(record).kill(machines.of(record))
    store.update(record.uuid, { status: 'stopped' })
  }

  /** Lets all paused guests run again that were not handed over. Called when the agent stops. */
  close(): Promise<void> {
    return this.#pauses.close()
  }

  #find({ subject }: Move): LiveGuest {
    const { store, machines } = this.parts.context
    const record = store.get(subject.id)
    const { live } = machines.driverOf(record)
    if (!live || record.status !== 'running')
      throw conflict('invalid_state', 'the container no longer runs: move it again')
    return { live, machine: machines.of(record) }
  }
}
