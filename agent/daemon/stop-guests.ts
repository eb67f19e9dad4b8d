import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.js'
import { Drivers } from '../drivers/drivers.js'
import { isMachineStopping } from '../host/process/init-system.js'
import { lockState } from '../state/lock.js'

/**
 * Shuts down all guests that run, each within its driver's `stop_timeout_seconds`. The journal is not touched: the agent
 * starts the same guests again after the boot.
 * @throws {BerthError} `already_running` while the agent runs, which would take their ends for their own wish
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

/** The same when the machine itself shuts down, else nothing: a unit is stopped for other reasons, too. */
export async function stopGuestsWithMachine(config: AgentConfig, log: Logger): Promise<void> {
  if (await isMachineStopping()) return stopGuests(config, log)
  log.info('the machine keeps running, and so do its guests')
}
