/** What one slice may take before other work has its turn. */
const sliceMs = 3

interface Job {
  /** @returns whether it has ended */
  step(): boolean
}

const waiting: Job[] = []

/**
 * Work that is too long for one turn of the event loop: it is done in slices, one in each turn, whoever it is for, so that
 * what is quick never waits for longer than a slice.
 * @param work yields often, after some tenth of a millisecond
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
  // Jobs take turns: a short one does not wait for a long one.
  if (waiting.length > 1) waiting.push(waiting.shift()!)
  if (waiting.length > 0) setImmediate(runSlice)
}
