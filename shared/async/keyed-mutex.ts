import { Mutex } from './mutex.js'

/** One mutex per key. Work on one key runs in the order of the calls. Work on different keys runs independently. */
export class KeyedMutex {
  readonly #mutexes = new Map<string, Mutex>()

  /** Runs the work, even if earlier work on the key failed. @throws the error of the work */
  run<T>(key: string, work: () => T | Promise<T>): Promise<T> {
    const mutex = this.#mutexes.get(key) ?? new Mutex()
    this.#mutexes.set(key, mutex)
    const result = mutex.run(work)
    void mutex.settled().then(() => {
      if (!mutex.isLocked) this.#mutexes.delete(key)
    })
    return result
  }

  /** True if work on the key is running or waiting. */
  isLocked(key: string): boolean {
    return this.#mutexes.get(key)?.isLocked ?? false
  }
}
