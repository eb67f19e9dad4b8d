import { Throttle } from '../../shared/async/throttle.js'

/**
 * Returns the progress of a running operation, 0 to 99. The value 100 is reserved for an ended operation.
 * @param weights weights of all steps
 * @param fraction progress of the step at `index`, limited to 0…1; NaN counts as 0
 */
export function planProgress(weights: readonly number[], index: number, fraction: number): number {
  const total = sum(weights)
  if (total <= 0) return 0
  const within = Math.min(1, Math.max(0, fraction || 0)) * (weights[index] ?? 0)
  return Math.min(99, Math.floor((100 * (sum(weights.slice(0, index)) + within)) / total))
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

interface ProgressReport {
  progress: number
  stage: string
}

/**
 * Writes a step's progress to the journal, at most once per `intervalMs`, because each write is a synced commit and an
 * event to every watcher. The latest report is always written, unless the step ends first.
 */
export class ProgressReporter {
  readonly #writes: Throttle
  #newest: ProgressReport

  constructor(
    private readonly write: (reported: ProgressReport) => void,
    private last: ProgressReport,
    intervalMs = 200,
  ) {
    this.#newest = last
    this.#writes = new Throttle(() => this.#flush(), { intervalMs, leading: true })
    this.#writes.hold() // the step's start has just been written, so the first progress report waits for an interval
  }

  report(progress: number, stage: string = this.#newest.stage): void {
    this.#newest = { progress, stage }
    this.#writes.request()
  }

  /** Drops a report that is not written yet, because the step has ended. */
  close(): void {
    this.#writes.close()
  }

  #flush(): void {
    const next = this.#newest
    if (next.progress === this.last.progress && next.stage === this.last.stage) return
    this.last = next
    this.write(next)
  }
}
