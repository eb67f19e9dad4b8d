import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Logger } from 'pino'
import { downtimeMs } from '../../../shared/move-rules.js'
import type { LiveMoves } from '../../drivers/contract.js'
import type { Machine } from '../../drivers/machine.js'
import type { BackupContext } from '../context.js'
import { connectTarget } from './connect-target.js'
import { targetOf, type Move } from './copy-disk.js'

/** A running guest, and the driver that can send its memory. */
export interface LiveGuest {
  readonly live: LiveMoves
  readonly machine: Machine
}

/**
 * The connection on which this agent passes the memory of a guest from its driver to the target. A held connection
 * passes nothing on. The driver then cannot reach the end of the memory, so it does not pause the guest.
 */
export class MemoryConnection {
  #open: Promise<void> = Promise.resolve()
  #release: (() => void) | undefined

  /** Passes data from `inside` to `outside`, while the connection is not held. */
  constructor(
    private readonly inside: Duplex,
    private readonly outside: Duplex,
    log: Logger,
  ) {
    this.hold()
    outside.once('close', () => this.close())
    pipeline(inside, (chunks: AsyncIterable<Buffer>) => this.#pass(chunks), outside).catch((err: unknown) =>
      log.debug({ err }, 'the connection that transfers the memory of a guest has ended'),
    )
  }

  /** Connects to the target and begins to send. The connection is held at first. */
  static async open(context: BackupContext, step: Move, { live, machine }: LiveGuest): Promise<MemoryConnection> {
    const { bandwidthMbps, maxDowntimeMs = downtimeMs.usual } = step.input
    const target = { ...targetOf(context, step), isForMemory: true }
    const outside = await connectTarget(context.config.state_dir, target, step.signal)
    outside.setKeepAlive(true, 15_000)
    try {
      return new MemoryConnection(await live.send(machine, { bandwidthMbps, maxDowntimeMs }), outside, step.log)
    } catch (error) {
      outside.destroy()
      throw error
    }
  }

  get isHeld(): boolean {
    return this.#release !== undefined
  }

  hold(): void {
    if (!this.isHeld) this.#open = new Promise((resolve) => (this.#release = resolve))
  }

  release(): void {
    this.#release?.()
    this.#release = undefined
  }

  close(): void {
    this.inside.destroy()
    this.outside.destroy()
    this.release()
  }

  async *#pass(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      await this.#open
      yield chunk
    }
  }
}
