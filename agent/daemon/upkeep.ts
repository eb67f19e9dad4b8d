import type { Logger } from 'pino'

const dayMs = 86_400_000

export interface UpkeepParts {
  /** Each runs at once and then daily; a failure is logged, and the task runs again the next day. */
  readonly tasks: Readonly<Record<string, () => Promise<unknown>>>
  readonly log: Logger
  /** Default: a day. */
  readonly everyMs?: number
}

/** @returns a function that ends it after the current round */
export function startUpkeep({ tasks, log, everyMs = dayMs }: UpkeepParts): () => Promise<void> {
  let round = Promise.resolve()
  const begin = (): void => void (round = round.then(() => runAll(tasks, log)))
  begin()
  const timer = setInterval(begin, everyMs)
  timer.unref()
  return () => {
    clearInterval(timer)
    return round
  }
}

async function runAll(tasks: UpkeepParts['tasks'], log: Logger): Promise<void> {
  for (const [task, run] of Object.entries(tasks)) {
    try {
      await run()
    } catch (err) {
      log.error({ err, task }, 'upkeep')
    }
  }
}
