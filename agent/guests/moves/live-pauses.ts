import { conflict, toBerthError } from '../../../shared/errors.js'
import { downtimeMs } from '../../../shared/move-rules.js'
import type { GuestStore } from '../record/guest-store.js'
import { readOwnership } from './change-ownership.js'
import type { Move } from './copy-disk.js'
import type { LiveGuest, MemoryConnection } from './memory-connection.js'

/** Maximum time in ms for which a guest is paused on its source. The move's `maxDowntimeMs` is added to it. */
const mostPausedMs = 30_000

/** The pause of a guest for the last part of its live move. */
export interface Pause {
  /** Time of the pause in ms since 1970. */
  readonly atMs: number
  /** Aborted when the guest must run again. */
  readonly deadline: AbortSignal
  readonly memory: Pick<MemoryConnection, 'close'>
}

interface KnownPause extends Pause {
  readonly expire: () => Promise<void>
  readonly timer: NodeJS.Timeout
}

export interface BegunPause extends LiveGuest {
  readonly atMs: number
  readonly memory: Pick<MemoryConnection, 'close'>
}

/**
 * Guests that this agent has paused for the last part of their move. A guest that is not handed over runs again at its
 * deadline and when the agent stops. This does not depend on its operation, which can be waiting, for example until the
 * journal has space.
 */
export class LivePauses {
  readonly #pauses = new Map<string, KnownPause>()

  constructor(
    private readonly store: GuestStore,
    private readonly now: () => number,
    private readonly limitMs = mostPausedMs,
  ) {}

  begin(step: Move, begun: BegunPause): void {
    const { atMs, memory } = begun
    const deadline = new AbortController()
    const expire = async (): Promise<void> => {
      this.end(step)
      deadline.abort()
      await this.#release(step, begun)
    }
    const leftMs = this.limitMs + (step.input.maxDowntimeMs ?? downtimeMs.usual) - (this.now() - atMs)
    const timer = setTimeout(() => void expire(), Math.max(0, leftMs))
    this.#pauses.set(step.operationId, { atMs, memory, deadline: deadline.signal, expire, timer })
  }

  /** @throws {BerthError} `connection_lost` if the guest is no longer paused, or the agent was restarted meanwhile */
  get({ operationId }: Pick<Move, 'operationId'>): Pause {
    const pause = this.#pauses.get(operationId)
    if (pause) return pause
    const message = 'the move was interrupted while the container was paused, and it runs again: move it again'
    throw conflict('connection_lost', message)
  }

  /** Forgets a pause, because the guest was handed over, or its operation lets it run again. */
  end({ operationId }: Pick<Move, 'operationId'>): void {
    const pause = this.#pauses.get(operationId)
    if (!pause) return
    this.#pauses.delete(operationId)
    clearTimeout(pause.timer)
    pause.memory.close()
  }

  /** Lets all guests run again. Called when the agent stops. */
  async close(): Promise<void> {
    await Promise.all([...this.#pauses.values()].map(({ expire }) => expire()))
  }

  /** Lets a guest run again whose pause was removed from `#pauses`. The operation that moves the guest then fails. */
  async #release({ subject, log }: Move, { live, machine }: LiveGuest): Promise<void> {
    const { role } = readOwnership(this.store, subject.id)
    if (role !== 'owner' && role !== 'leaving') return
    try {
      await live.release(machine)
    } catch (err) {
      log.warn({ err: toBerthError(err, 'could not continue the guest') }, 'a guest could not continue after its pause')
    }
  }
}
