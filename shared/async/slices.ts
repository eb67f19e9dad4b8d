/** Length of a slice, after which other work gets its turn. */
const sliceMs = 3

interface Job {
  /** @returns whether the work has ended */
  step(): boolean
}

const waiting: Job[] = []

/**
 * Runs long work in slices, one for each turn of the event loop and shared by all such work, so that quick requests
 * wait for one slice at most.
 * @param work yields often, about every tenth of a millisecond
 */
export function inSlices<T>(work: Generator<void, T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const step = (): boolean => {
      try {
        const next = work.next()
        if (next.done) resolve(next.value)
        return next.done ?? false
      } catch (cause) {
        reject(new Error('work in slices', { cause }))
        return true
      }
    }
    if (waiting.push({ step }) === 1) setImmediate(runSlice)
  })
}

function runSlice(): void {
  const until = performance.now() + sliceMs
  while (waiting.length > 0 && performance.now() < until) if (waiting[0]!.step()) waiting.shift()
  // Jobs take turns, so that a short one does not wait for a long one.
  if (waiting.length > 1) waiting.push(waiting.shift()!)
  if (waiting.length > 0) setImmediate(runSlice)
}
