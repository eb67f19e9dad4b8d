import { rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { describeError } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { endConsoleProcesses, removeConsoleFiles } from '../console/console-process.js'
import { Drivers } from '../drivers/drivers.js'
import { Ip } from '../host/net/ip.js'
import { removeHostAddresses } from '../network/address-book.js'
import { createRules } from '../network/nft/rules.js'
import { createShaper } from '../network/shaping/shaping.js'
import { lockState } from '../state/lock.js'
import { removePool } from '../storage/remove.js'
import { removeSwap } from '../swap/remove.js'
import { restoreKernelSettings } from './kernel-record.js'

/**
 * Removes everything that an agent with this configuration has created: guests, rules, bridge, pool, swap file and
 * journal. Does not need the journal, so that it also works after a crash. Continues after a failure, but keeps rules,
 * pool and files if it could not remove all guests.
 * @throws {BerthError} `already_running` while the agent runs
 * @throws {AggregateError} with all failures
 */
export async function purge(config: AgentConfig, log: Logger): Promise<void> {
  const unlock = lockState(join(config.state_dir, 'lock.db'))
  const failures: unknown[] = []
  try {
    // Removes the bridge first. Guests then have no network, because the nft rules drop packets that bypass the bridge.
    await attempt(failures, 'bridge', () => removeBridge(config.network.bridge))
    await attempt(failures, 'addresses', () => removeHostAddresses(config.network, log))
    await attempt(failures, 'rates', () => removeRates(config))
    await attempt(failures, 'consoles', () => endConsoleProcesses(config.run_dir))
    if (await attempt(failures, 'guests', () => Drivers.removeAll(config, log))) {
      await attempt(failures, 'the network', () => removeNetwork(config))
      await attempt(failures, 'the storage pool', () => removePool(config.storage, log))
      await attempt(failures, 'the swap file', () => removeSwap(config))
      await attempt(failures, 'changed kernel settings', () => restoreKernelSettings(config.state_dir, log))
    }
  } finally {
    unlock()
  }
  if (failures.length === 0) return removeFiles(config)
  throw new AggregateError(failures, failures.map(describeError).join('; '))
}

/** Runs one part of the purge. Adds its failure to `failures`. @returns true if the part succeeded */
async function attempt(failures: unknown[], what: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (cause) {
    failures.push(new Error(`removal of ${what} failed: ${describeError(cause)}`, { cause }))
    return false
  }
}

async function removeBridge(bridge: string): Promise<void> {
  const ip = new Ip()
  try {
    if (await ip.findInterface(bridge)) await ip.remove([`link delete dev ${bridge}`])
  } finally {
    await ip.close()
  }
}

async function removeRates({ network }: AgentConfig): Promise<void> {
  const shaper = createShaper(network.interface_prefix)
  try {
    await shaper.removeAll()
  } finally {
    await shaper.close()
  }
}

async function removeNetwork(config: AgentConfig): Promise<void> {
  const rules = createRules(config.network)
  try {
    await rules.remove()
  } finally {
    await rules.close()
  }
}

async function removeFiles(config: AgentConfig): Promise<void> {
  for (const name of made) await rm(join(config.state_dir, name), { recursive: true, force: true })
  await removeConsoleFiles(config.run_dir)
  for (const directory of [config.run_dir, config.state_dir]) await rmdir(directory).catch(ignoreFilled)
}

/** Files that the agent creates in its state directory. The operator may have put other files there. */
const made = [
  'identity',
  'secret.key',
  'history',
  'journal.db',
  'journal.db-shm',
  'journal.db-wal',
  'lock.db',
  'lock.db-journal',
]

function ignoreFilled(error: unknown): void {
  if (!['ENOTEMPTY', 'ENOENT', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
}
