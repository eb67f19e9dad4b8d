import type { Logger } from 'pino'

const hourMs = 3_600_000

export interface UpkeepParts {
  /** Each is done at once and then every hour; one that fails is logged and done again in the next. */
  readonly tasks: Readonly<Record<string, () => Promise<unknown>>>
  readonly log: Logger
  /** Default: an hour. */
  readonly everyMs?: number
}

/** @returns ends it, after the round that is under way */
export function startUpkeep({ tasks, log, everyMs = hourMs }: UpkeepParts): () => Promise<void> {
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
