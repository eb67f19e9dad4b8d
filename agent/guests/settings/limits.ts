import { conflict } from '../../../shared/errors.js'
import { checkCapacityChange, type ProcessorsAndMemory } from '../capacity.js'
import { driverOf, type GuestContext } from '../context.js'
import { checkLimits } from '../limits.js'
import { networkOf } from '../network.js'
import type { GuestLimits, GuestRecord } from '../record.js'
import { changeGuest, type Target } from './change.js'

/** New limits; undefined fields stay. A disk cannot change its size. */
export type LimitsChange = {
  readonly [Field in keyof Omit<GuestLimits, 'diskGb'>]?: GuestLimits[Field] | undefined
}

/**
 * Changes limits; in force at once for a running guest.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`, `memory_in_use` when the guest uses more than the new
 * limit, `task_running` while it is being created, and those of `changeGuest`
 */
export async function setLimits(
  context: GuestContext,
  target: Target,
  { wanted, capacity }: { wanted: LimitsChange; capacity: ProcessorsAndMemory },
): Promise<GuestRecord> {
  const { store } = context
  return changeGuest(context, target, {
    write: ({ uuid, status, spec: { limits: old } }) => {
      // Its disk and configuration are being made with the limits that were ordered.
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
