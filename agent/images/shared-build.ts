import type { Report } from './publish.js'

/**
 * A single flight that can be aborted: several callers wait for one build of an image. A caller stops waiting when its
 * signal is aborted. When no caller is waiting any more, the build is aborted.
 */
export class SharedBuild {
  readonly #abort = new AbortController()
  readonly #reports = new Set<Report>()
  readonly #result: Promise<void>
  #last: Parameters<Report> | undefined

  constructor(work: (report: Report, signal: AbortSignal) => Promise<void>) {
    this.#result = work((...progress) => {
      this.#last = progress
      for (const report of this.#reports) report(...progress)
    }, this.#abort.signal)
    this.#result.catch(() => undefined) // `join` passes a failure to the callers that are still waiting
  }

  get abandoned(): boolean {
    return this.#abort.signal.aborted
  }

  /** Resolves when the build has ended, even if it failed. */
  async settled(): Promise<void> {
    await this.#result.catch(() => undefined)
  }

  async join(report: Report, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const own: Report = (...progress) => report(...progress)
    this.#reports.add(own)
    if (this.#last) own(...this.#last)
    let leave: () => void = () => undefined
    const left = new Promise<never>((_, reject) => {
      leave = () => reject(signal.reason as Error)
      signal.addEventListener('abort', leave, { once: true })
    })
    try {
      await Promise.race([this.#result, left])
    } finally {
      signal.removeEventListener('abort', leave)
      this.#reports.delete(own)
      if (this.#reports.size === 0) {
        this.#abort.abort(signal.reason)
        await this.settled()
      }
    }
  }
}
