import { Mutex } from './mutex.js'

/** Coalesces requests for work. All requests during a run share one more run, which begins after the present run. */
export class Coalescer {
  readonly #mutex = new Mutex()
  #next: Promise<void> | undefined

  constructor(private readonly work: () => Promise<void>) {}

  /** True if a run is in progress or waiting. */
  get isBusy(): boolean {
    return this.#mutex.isLocked
  }

  /**
   * Requests a run that begins after this call. A run in progress is not enough, as it may have read older state.
   * @throws the error of the work
   */
  run(): Promise<void> {
    this.#next ??= this.#mutex.run(() => {
      this.#next = undefined
      return this.work()
    })
    return this.#next
  }

  /** Resolves when all runs requested before this call have ended. Never rejects. */
  settled(): Promise<void> {
    return this.#mutex.settled()
  }
}
