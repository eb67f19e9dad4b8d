import type { Driver } from '../../drivers/contract.js'
import type { GuestContext } from '../context.js'

type Context = Pick<GuestContext, 'store' | 'volumes' | 'log'> & {
  readonly drivers: readonly Driver[]
  readonly isBusy: (uuid: string) => boolean
}

/**
 * Finds guests on the host that the journal does not contain. The journal can be outdated, so they are only reported.
 * Guests that the journal records as deleted are removed, because a power loss may have brought their files back.
 */
export async function findStrays(context: Context): Promise<string[]> {
  const strays: string[] = []
  for (const uuid of await listTraces(context)) {
    if (context.store.find(uuid) || context.isBusy(uuid)) continue
    if (!(await removeForgotten(context, uuid))) strays.push(uuid)
  }
  return strays
}

async function listTraces({ drivers, volumes }: Context): Promise<Set<string>> {
  const lists = drivers.map((driver) => driver.listTraces())
  return new Set((await Promise.all([volumes.list(), ...lists])).flat())
}

/** Removes a guest if it is recorded as deleted and does not run. @returns true if it was removed */
async function removeForgotten({ store, drivers, volumes, log }: Context, uuid: string): Promise<boolean> {
  if (!store.changes.wasRemoved('guest', uuid)) return false
  try {
    for (const driver of drivers) if (!(await driver.removeTraces(uuid))) return false
    await volumes.remove(uuid)
    return true
  } catch (err) {
    log.warn({ err, guest: uuid }, 'could not remove the remains of a deleted guest')
    return false
  }
}
