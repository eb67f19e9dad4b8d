import type { Logger } from 'pino'

/** Logs the failure of a comparison: the next one tries again. */
export async function guardComparison(log: Logger, what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (err) {
    log.error({ err }, `compare ${what}`)
  }
}
