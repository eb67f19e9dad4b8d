import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { AgentConfig } from '../config.js'
import { lockState } from '../state/lock.js'
import { removePool } from '../storage/remove.js'
import { Closers } from './closers.js'
import { openHost } from './host.js'
import { restoreKernelSettings } from './kernel-record.js'

/**
 * Removes everything an agent of this configuration ever made: guests, rules, bridge, pool, journal. Needs
 * no journal, and works on what a crash left.
 * @throws {BerthError} `already_running` while the agent runs
 */
export async function purge(config: AgentConfig, log: Logger): Promise<void> {
  const closers = new Closers()
  try {
    closers.add(lockState(join(config.state_dir, 'lock.db')))
    const host = await openHost(config, log, closers)
    await host.lxc.removeAll()
    await host.network.remove()
    await restoreKernelSettings(config.state_dir, log)
  } finally {
    await closers.run()
  }
  await removePool(config.storage, log)
  for (const directory of [config.run_dir, config.state_dir])
    await rm(directory, { recursive: true, force: true })
}
