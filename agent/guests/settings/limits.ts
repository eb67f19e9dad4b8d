import { BerthError, conflict } from '../../../shared/errors.js'
import type { PoolCapacity } from '../../storage/pool.js'
import { checkRoom } from '../../storage/room.js'
import { checkCapacityChange, type HostCapacity } from '../resources/capacity.js'
import type { GuestContext } from '../context.js'
import { checkLimits } from '../resources/limits.js'
import { networkOf } from '../resources/network.js'
import type { GuestLimits, GuestRecord } from '../record/record.js'
import { noteForStart } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { changeGuest, type Target } from './change.js'

const gib = 1024 ** 3

/** A change of limits. Undefined fields keep their value. */
export type LimitsChange = { readonly [Field in keyof GuestLimits]?: GuestLimits[Field] | undefined }

/**
 * Changes limits. Limits that the driver cannot change in a running guest wait for the next start.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`, `disk_shrink`, `memory_in_use` (the guest uses more than
 * the new limit), `task_running` (the guest is being created), and the errors of `changeGuest`
 */
export async function setLimits(
  context: GuestContext,
  target: Target,
  { wanted, capacity }: { wanted: LimitsChange; capacity: HostCapacity },
): Promise<GuestRecord> {
  const { store, volumes } = context
  let disk: PoolCapacity | undefined
  let grows = false
  return changeGuest(context, target, {
    prepare: async () => void (disk = wanted.diskGb === undefined ? undefined : await capacity.readDisk()),
    write: ({ uuid, status, spec: { limits: old } }) => {
      // The operation that creates the guest still needs the original limits.
      if (status === 'creating') throw conflict('task_running', 'the container is being created')
      const limits = checkLimits(merge(old, wanted))
      checkCapacityChange(old, limits, capacity)
      grows = checkDisk(old, limits, disk)
      store.update(uuid, { limits })
      return () => store.update(uuid, { limits: old })
    },
    apply: async (record) => {
      if (grows) await volumes.resize(record.uuid, volumeLimitOf(context.machines, record))
      const resized = await context.machines.driverOf(record).resize(context.machines.of(record))
      if (resized.outcome === 'refused') throw resized.error
      noteForStart(store, record.uuid, { change: 'limits', later: resized.outcome === 'at_next_start' })
      await context.network.attach(networkOf(record, context.config), ['rates'])
    },
  })
}

function merge(old: GuestLimits, wanted: LimitsChange): GuestLimits {
  const sent = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined))
  return { ...old, ...sent }
}

/**
 * Checks the new disk size. A disk never shrinks, because its content might not fit, and its partition table would not
 * match.
 * @returns true if the disk grows
 * @throws {BerthError} `disk_shrink`, `resource_exhausted`
 */
function checkDisk(old: GuestLimits, { diskGb }: GuestLimits, pool: PoolCapacity | undefined): boolean {
  if (diskGb < old.diskGb)
    throw new BerthError('conflict', 'disk_shrink', `disk_gb: the disk has ${old.diskGb} GB and can only grow`, {
      field: 'disk_gb',
    })
  if (diskGb === old.diskGb) return false
  if (pool) checkRoom(pool, diskGb * gib)
  return true
}
