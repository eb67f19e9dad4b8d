import { conflict } from '../../../shared/errors.js'
import { checkCapacityChange, type ProcessorsAndMemory } from '../capacity.js'
import { driverOf, type GuestContext } from '../context.js'
import { checkLimits } from '../limits.js'
import { networkOf } from '../network.js'
import type { GuestLimits, GuestRecord } from '../record.js'
import { changeGuest, type Target } from './change.js'

/** What is not sent stays; a disk does not change its size. */
export type LimitsChange = {
  readonly [Field in keyof Omit<GuestLimits, 'diskGb'>]?: GuestLimits[Field] | undefined
}

/**
 * In force at once where the guest runs.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`, `memory_in_use` where it uses more memory than it is
 * to have, `task_running` while it is being created, and those of `changeGuest`
 */
export async function setLimits(
  context: GuestContext,
  target: Target,
  { wanted, capacity }: { wanted: LimitsChange; capacity: ProcessorsAndMemory },
): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    write: ({ uuid, status, spec: { limits: old } }) => {
      // Its disk and configuration are in the making, with the limits that it was ordered with.
      if (status === 'creating') throw conflict('task_running', 'the container is being created')
      const limits = checkLimits(merge(old, wanted))
      checkCapacityChange(old, limits, capacity)
      store.update(uuid, { limits })
      return () => store.update(uuid, { limits: old })
    },
    apply: async (record) => {
      const resized = await driverOf(context, record).resize(context.machineOf(record))
      if (resized.outcome === 'refused') throw resized.error
      await context.network.attach(networkOf(record, context), ['rates'])
    },
  })
}

function merge(old: GuestLimits, wanted: LimitsChange): GuestLimits {
  const sent = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined))
  return { ...old, ...sent }
}
