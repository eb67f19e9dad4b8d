import { rm } from 'node:fs/promises'
import { removeLocks } from '../../host/guest/lxc.js'
import type { LxcConfigStore } from './config-store.js'
import { removeGroups } from '../common/remove-groups.js'
import { killGuest, type LxcStopContext } from './stop.js'

/**
 * Kills every guest of this agent, even one without a configuration file. Removes everything that the driver has
 * created on the host. Disks stay, because they are deleted with the pool.
 */
export async function removeAll(context: LxcStopContext, configs: LxcConfigStore, namePrefix: string): Promise<void> {
  const { paths, runtime } = context
  const names = new Set([...configs.listNames(), ...runtime.listNames(namePrefix)])
  for (const name of names) {
    const device = configs.findDevice(name) ?? name.replace('-', '')
    await killGuest(context, { name, device })
  }
  for (const path of [paths.lxcPath, paths.support, paths.marks]) await rm(path, { recursive: true, force: true })
  removeLocks(paths.lxcPath)
  const groups = runtime.cgroups.hierarchies.map((path) => `${path}/${paths.pivotGroup}`)
  await removeGroups(groups)
}
