import type { SteadyClock } from '../../../shared/steady-clock.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'

export interface DueDeletionParts {
  readonly context: Pick<GuestContext, 'store' | 'log'>
  readonly clock: Pick<SteadyClock, 'earliest' | 'isSettled'>
  /** True if an operation of the guest is pending or running. */
  readonly busy: (uuid: string) => boolean
  /** Submits the operation that removes the guest. */
  readonly remove: (uuid: string) => void
}

/**
 * Removes deleted guests whose deletion can no longer be undone. Each deletion is stored with its guest, so it survives
 * a restart of the agent. While the clock may be wrong, nothing is removed. If a deleted guest runs or should run, its
 * deletion is undone. An older agent, which ignores deletions, may have started the guest.
 */
export class DueDeletions {
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly parts: DueDeletionParts) {}

  /** Checks the deletions immediately and then at every interval. */
  start(intervalMs: number): void {
    this.look()
    this.#timer = setInterval(() => this.look(), intervalMs)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  look(): void {
    const { context, remove } = this.parts
    for (const record of context.store.list())
      if (this.#isUsed(record)) this.#forget(record)
      else if (this.#isDue(record))
        try {
          context.log.info({ guest: record.uuid }, 'removing a deleted guest: its deletion can no longer be undone')
          remove(record.uuid)
        } catch (err) {
          context.log.error({ err, guest: record.uuid }, 'could not remove a deleted guest')
        }
  }

  #isUsed({ uuid, deletion, ownership, wanted }: GuestRecord): boolean {
    return deletion !== null && ownership.role === 'owner' && wanted === 'running' && !this.parts.busy(uuid)
  }

  #forget({ uuid }: GuestRecord): void {
    const { store, log } = this.parts.context
    log.warn({ guest: uuid }, 'a deleted guest runs or should run: its deletion is undone')
    store.update(uuid, { deletion: null })
  }

  /** True if the removal is due: `untilMs` has surely passed, and this host owns the guest, which has no operation. */
  #isDue({ uuid, deletion, ownership }: GuestRecord): boolean {
    const { clock, busy } = this.parts
    if (!deletion || ownership.role !== 'owner') return false
    return clock.isSettled() && clock.earliest() >= deletion.untilMs && !busy(uuid)
  }
}
