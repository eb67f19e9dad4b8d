import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.js'
import { Drivers } from '../drivers/drivers.js'
import { isMachineStopping } from '../host/process/init-system.js'
import { lockState } from '../state/lock.js'

/**
 * Shuts down all running guests, each within its driver's `stop_timeout_seconds`. Does not change the journal, so that
 * the agent starts the same guests after the boot.
 * @throws {BerthError} `already_running` while the agent runs, because the agent would report that the guests ended by
 * themselves
 * @throws the first failure of a guest, after all others have ended
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

/** Runs `stopGuests` only if the host is shutting down, because systemd also stops the unit for other reasons. */
export async function stopGuestsWithMachine(config: AgentConfig, log: Logger): Promise<void> {
  if (await isMachineStopping()) return stopGuests(config, log)
  log.info('the machine is not shutting down, so its guests keep running')
}
