import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'
import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'

/** States of a migration in which QEMU sends memory, or waits before it sends the last part (qapi/migration.json). */
const unfinished = ['setup', 'cancelling', 'active', 'pre-switchover', 'device', 'wait-unplug']
/** States of a guest that its migration has paused, on the source host (RunState in qapi/run-state.json). */
export const pausedByMigration: readonly string[] = ['finish-migrate', 'postmigrate']
/** States from which `continueMachine` lets a guest run. A guest whose memory has arrived completely is `paused`. */
const paused = ['paused', 'prelaunch', ...pausedByMigration]
const endTimeoutMs = 30_000
const pollMs = 20

export async function readMigration(
  monitor: QmpConnection,
  timeoutMs?: number,
): Promise<Readonly<Record<string, unknown>>> {
  return objectOf(await monitor.execute('query-migrate', undefined, timeoutMs)) ?? {}
}

/** Returns the state of a migration, as QEMU names it. Empty: there was no migration. */
export function stateOf(migration: Readonly<Record<string, unknown>>): string {
  const state = migration['status']
  return typeof state === 'string' ? state : ''
}

export async function readRunState(monitor: QmpConnection, timeoutMs?: number): Promise<string> {
  const state = objectOf(await monitor.execute('query-status', undefined, timeoutMs))?.['status']
  return typeof state === 'string' ? state : ''
}

/** Cancels a migration that has not finished. QEMU then lets the guest run again. */
export async function cancelMigration(monitor: QmpConnection): Promise<void> {
  const deadline = performance.now() + endTimeoutMs
  const isUnfinished = async (): Promise<boolean> => unfinished.includes(stateOf(await readMigration(monitor)))
  for (let isFirst = true; await isUnfinished(); isFirst = false) {
    if (isFirst) await monitor.execute('migrate_cancel')
    if (performance.now() > deadline)
      throw new BerthError('timeout', 'machine_timeout', 'QEMU did not end the migration in time')
    await delay(pollMs)
  }
}

/**
 * Lets a guest run that a migration has paused, on the source or the target. Cancels a migration that has not finished.
 * Call this only on the host that owns the guest. Does nothing for a guest that already runs. If QEMU refuses because
 * it is still ending the migration, the caller tries again.
 * @returns false if QEMU lacks a part of the guest's memory
 */
export async function continueMachine(monitor: QmpConnection): Promise<boolean> {
  await cancelMigration(monitor)
  const state = await readRunState(monitor)
  if (state === 'inmigrate') return false
  if (!paused.includes(state)) return true
  await monitor.execute('cont')
  // The guest announces its address, so that the switches between the hosts learn its new place.
  await monitor.execute('announce-self', { initial: 50, max: 550, rounds: 5, step: 100 })
  return true
}
