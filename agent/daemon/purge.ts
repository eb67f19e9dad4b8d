import { rm, rmdir } from 'node:fs/promises'
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
  for (const name of made) await rm(join(config.state_dir, name), { recursive: true, force: true })
  await rm(join(config.run_dir, 'lxc-stopped'), { recursive: true, force: true })
  for (const directory of [config.run_dir, config.state_dir]) await rmdir(directory).catch(ignoreFilled)
}

/** What an agent makes in its state directory; the directory may have more of the operator's. */
const made = [
  ...['identity', 'lxc', 'lxc-support', 'secret.key'],
  ...['journal.db', 'journal.db-shm', 'journal.db-wal', 'lock.db', 'lock.db-journal'],
]

function ignoreFilled(error: unknown): void {
  if (!['ENOTEMPTY', 'ENOENT', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
}
