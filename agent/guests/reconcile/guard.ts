import type { Logger } from 'pino'

/** Runs a comparison of host and journal, and logs its failure. The next comparison tries again. */
export async function guardComparison(log: Logger, what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (err) {
    log.error({ err }, `could not compare the ${what} of the host with the database`)
  }
}
