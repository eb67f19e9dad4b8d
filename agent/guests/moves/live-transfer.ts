import type { StageText } from '../../../shared/task-stages.js'
import { setTimeout as delay } from 'node:timers/promises'
import type { MemoryProgress } from '../../drivers/contract.js'
import type { Move } from './copy-disk.js'
import type { LiveGuest, MemoryConnection } from './memory-connection.js'
import type { SentDisk } from './plan-copy-rounds.js'
import { countLarge, memoryTooFast, planLeftBytes, planStall, type Stall } from './plan-live-rounds.js'

const mib = 1024 ** 2
const pollMs = 50
/** Maximum time in ms for which only memory is sent before changes of the disk are sent again. */
const memoryTurnMs = 30_000
/** Time limit in ms of the whole transfer. */
const transferMs = 6 * 3_600_000

export interface LiveTransferParts extends LiveGuest {
  readonly step: Pick<Move, 'input' | 'signal' | 'report'>
  readonly memory: Pick<MemoryConnection, 'isHeld' | 'hold' | 'release'>
  /** Sends the changes of the disk since the last round, until the signal aborts. */
  readonly sendRound: (signal: AbortSignal) => Promise<SentDisk>
  /** @throws {BerthError} `ticket_expired` if the ticket would expire before the move could end */
  readonly refuseTicket: (nowMs: number) => void
  /** Returns ms since 1970. */
  readonly now: () => number
}

/**
 * Sends the memory of a running guest and the changes of its disk in turn. Memory is sent only while few changes of the
 * disk are unsent: from the end of a small round until the guest has written much again. Therefore only few changes are
 * left when the driver pauses the guest.
 */
export class LiveTransfer {
  #writtenBytes = 0

  constructor(private readonly parts: LiveTransferParts) {}

  /**
   * Waits until the driver has paused the guest. Then ends a round of the disk that is in progress.
   * @returns the time of the pause, in ms since 1970
   * @throws {BerthError} `memory_not_sent`, `move_too_slow`, `ticket_expired`, and the errors of the rounds
   */
  async untilPaused(): Promise<number> {
    const ended = new AbortController()
    const signal = AbortSignal.any([this.parts.step.signal, ended.signal])
    const work = [this.#watch(signal), this.#sendInTurn(signal)]
    try {
      return await Promise.race(work)
    } finally {
      ended.abort()
      await Promise.allSettled(work)
      this.parts.memory.release()
    }
  }

  async #watch(signal: AbortSignal): Promise<number> {
    const { now, live, machine, refuseTicket } = this.parts
    const deadlineMs = performance.now() + transferMs
    for (let stall: Stall | undefined; ;) {
      const beforeMs = now()
      const progress = await live.readProgress(machine)
      if (progress.state !== 'sending') return beforeMs
      this.#note(progress)
      stall = planStall(stall, progress, performance.now())
      if (performance.now() > deadlineMs) throw memoryTooFast()
      refuseTicket(beforeMs)
      await delay(pollMs, undefined, { signal })
    }
  }

  #note(progress: MemoryProgress): void {
    const { memory, step } = this.parts
    this.#writtenBytes = progress.writtenBytes
    if (!memory.isHeld) step.report(0.99, describeProgress(progress))
  }

  async #sendInTurn(signal: AbortSignal): Promise<never> {
    const { memory, step, sendRound } = this.parts
    for (let large = 0; ;) {
      memory.hold()
      const beforeBytes = this.#writtenBytes
      const round = await sendRound(signal)
      const leftBytes = planLeftBytes(round, step.input.bandwidthMbps)
      large = countLarge(large, round, leftBytes)
      if (large > 0) continue
      memory.release()
      await this.#untilWritten(beforeBytes + leftBytes, signal)
    }
  }

  /** Waits until the guest has written much since the last round, or until `memoryTurnMs` has passed. */
  async #untilWritten(bytes: number, signal: AbortSignal): Promise<void> {
    const endMs = performance.now() + memoryTurnMs
    while (this.#writtenBytes < bytes && performance.now() < endMs) await delay(pollMs, undefined, { signal })
  }
}

function describeProgress(progress: MemoryProgress): StageText {
  const { remainingBytes, bytesPerSec, expectedDowntimeMs, slowedPercent } = progress
  const slowed = slowedPercent > 0 ? `, guest slowed down by ${slowedPercent} %` : ''
  const rate = (bytesPerSec / mib).toFixed(1)
  return `memory: ${Math.ceil(remainingBytes / mib)} MiB left, ${rate} MiB/s, downtime ${expectedDowntimeMs} ms${slowed}`
}
