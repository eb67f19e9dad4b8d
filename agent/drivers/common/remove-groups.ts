import { existsSync } from 'node:fs'
import { removeGroupTree } from '../../host/process/cgroup.js'
import { waitUntil } from './wait.js'

/** Removes the cgroups. Waits for zombies, which stay in their cgroup until process 1 of the host reaps them. */
export async function removeGroups(groups: readonly string[]): Promise<void> {
  await waitUntil(async () => (await Promise.all(groups.map(isRemoved))).every(Boolean), {
    timeoutMs: 15_000,
    what: 'the last processes of ended guests to leave their groups',
  })
}

async function isRemoved(group: string): Promise<boolean> {
  try {
    await removeGroupTree(group)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error
  }
  return !existsSync(group)
}
