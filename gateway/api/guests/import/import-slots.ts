import { conflict } from '../../../../shared/errors.js'

export interface SlotLimits {
  readonly all: number
  /** Limit for all callers that share a root (see `Principal`). */
  readonly perCaller: number
}

/** Limits how many archives a gateway receives at the same time. */
export class ImportSlots {
  readonly #byRoot = new Map<string, number>()
  #running = 0

  constructor(private readonly limits: SlotLimits = { all: 8, perCaller: 2 }) {}

  /** @throws {BerthError} `resource_exhausted` if no slot is free; the error of `work` */
  async run<T>(root: string, work: () => Promise<T>): Promise<T> {
    const own = this.#byRoot.get(root) ?? 0
    const { all, perCaller } = this.limits
    if (own >= perCaller) throw exhausted(`you can import at most ${perCaller} archives at the same time`)
    if (this.#running >= all) throw exhausted(`at most ${all} archives can be imported at the same time`)
    this.#byRoot.set(root, own + 1)
    this.#running++
    try {
      return await work()
    } finally {
      this.#leave(root)
    }
  }

  #leave(root: string): void {
    const left = this.#byRoot.get(root)! - 1
    if (left > 0) this.#byRoot.set(root, left)
    else this.#byRoot.delete(root)
    this.#running--
  }
}

function exhausted(why: string): Error {
  return conflict('resource_exhausted', `${why}: wait for the end of another import`)
}
