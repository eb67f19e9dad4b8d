/** Length in ms of one slice of long work. After each slice, the event loop runs other work. */
const sliceMs = 3

interface Job {
  /** Runs one step of the job. @returns true if the job has ended */
  step(): boolean
}

const waiting: Job[] = []

/**
 * Runs long work in slices, one per turn of the event loop. All jobs share these slices, so a quick request waits for
 * at most one slice, however many jobs run.
 * @param work must yield often, about every tenth of a millisecond
 */
export function inSlices<T>(work: Generator<void, T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const step = (): boolean => {
      try {
        const next = work.next()
        if (next.done) resolve(next.value)
        return next.done ?? false
      } catch (cause) {
        reject(new Error('a long computation failed', { cause }))
        return true
      }
    }
    if (waiting.push({ step }) === 1) setImmediate(runSlice)
  })
}

function runSlice(): void {
  const until = performance.now() + sliceMs
  while (waiting.length > 0 && performance.now() < until) if (waiting[0]!.step()) waiting.shift()
  // Jobs take turns, so that a short job does not wait for a long one.
  if (waiting.length > 1) waiting.push(waiting.shift()!)
  if (waiting.length > 0) setImmediate(runSlice)
}
