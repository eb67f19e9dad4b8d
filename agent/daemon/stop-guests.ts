import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.js'
import { Drivers } from '../drivers/drivers.js'
import { isMachineStopping } from '../host/process/init-system.js'
import { lockState } from '../state/lock.js'

/**
 * Shuts down all running guests, each within its driver's `stop_timeout_seconds`. Does not change the journal: the
 * agent starts the same guests again after the boot.
 * @throws {BerthError} `already_running` while the agent runs, since it would treat the guests' ends as their own
 * @throws the first guest's failure, once all others have ended
 */
export async function stopGuests(config: AgentConfig, log: Logger): Promise<void> {
  const unlock = lockState(join(config.state_dir, 'lock.db'))
  try {
    await Drivers.stopAll(config, log)
  } finally {
    unlock()
  }
  log.info('guests are shut down')
}

/** Does the same, but only if the machine itself is shutting down: a unit may be stopped for other reasons. */
export async function stopGuestsWithMachine(config: AgentConfig, log: Logger): Promise<void> {
  if (await isMachineStopping()) return stopGuests(config, log)
  log.info('the machine keeps running, and so do its guests')
}
