import { toBerthError } from '../../shared/errors.js'

/** Runs pieces of work one after another, in the order asked for. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve()

  /** @throws {BerthError} the work's error, with the name of the step */
  run<T>(step: string, work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work).catch((cause: unknown) => {
      throw toBerthError(cause, step)
    })
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Waits until all work asked for so far has ended. */
  async settled(): Promise<void> {
    await this.#last
  }
}
