import { toBerthError } from '../../shared/errors.js'

/** Pieces of work on the same part of the host, one after another in the order asked for. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve()

  /** @throws {BerthError} what the work throws, told with the name of the step */
  run<T>(step: string, work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work).catch((cause: unknown) => {
      throw toBerthError(cause, step)
    })
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Once all that was asked for until now has ended. */
  async settled(): Promise<void> {
    await this.#last
  }
}
