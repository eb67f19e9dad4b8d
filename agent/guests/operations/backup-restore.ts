import { setTimeout as delay } from 'node:timers/promises'
import { BerthError } from '../../../shared/errors.js'
import type { OperationKind, OrderOf } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import { planReserveBytes } from '../../storage/room.js'
import type { HostCapacity } from '../capacity.js'
import { driverOf, type GuestContext } from '../context.js'
import { parseUuid } from '../parse-create.js'
import type { GuestRecord } from '../record.js'
import { refuseSuspended } from '../policy.js'
import { removeStrays } from '../snapshots.js'
import { ifPresent, withGuest } from '../steps.js'
import { volumeLimitOf } from '../volume-bound.js'
import { parseTarget, repositoryOf, type TargetInput } from './backup-order.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { forgetKept, mayRun, replaceDiskSteps } from './replace-disk.js'
import { settleRestore } from './settle-restore.js'

interface RestoreInput extends TargetInput {
  backupId: string
  /** The guest's that it is of. */
  sourceUuid: string
  /** What it would write while it shuts down is given up: its power is cut. */
  force: true
}

/** How long a disk that was given up may take to vanish, by the kernel's own pace. */
const vanishMs = 60_000
const lookMs = 500

interface Parts {
  readonly context: GuestContext
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/** What btrfs needs to keep files beside what is in them, as a share of that. */
const overhead = 1.1
const smallOverheadBytes = 64 * 1024 ** 2

/**
 * What was kept is fetched beside the disk while the guest runs; then one takes the other's place, as a restored
 * snapshot does. A guest that it is not of gets its own name and login on it.
 */
export function backupRestoreKind(
  context: GuestContext,
  capacity: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'backupRestore', RestoreInput> {
  const { store } = context
  return {
    action: 'backup-restore',
    accept: (order, asked) => {
      const input = parseRestore(context, order)
      const { target: _sealed, ...told } = input
      const check = (record: GuestRecord): void => {
        refuseBroken(record)
        refuseSuspended(record)
      }
      return {
        ...acceptForGuest(context, asked, { uuid: order.uuid, input, check }),
        hashOf: told,
      }
    },
    steps: replaceDiskSteps(context, {
      prepare: fetchStep({ context, capacity }),
      commit: { name: 'forget', run: (step) => commit(context, step) },
    }),
    settle: (operation, outcome) => {
      settleRestore(context, operation, outcome)
      store.update(operation.subject.id, { fetchedBytes: 0 })
    },
  }
}

/** @throws {BerthError} `invalid_field`, `missing_field` */
function parseRestore(context: GuestContext, order: OrderOf<'backupRestore'>): RestoreInput {
  return {
    ...parseTarget(context, parseUuid('uuid', order.uuid), order.target),
    backupId: parseUuid('backup_id', order.backupId),
    sourceUuid: parseUuid('source_uuid', order.sourceUuid),
    force: true,
  }
}

function fetchStep({ context, capacity }: Parts): Step<RestoreInput> {
  const { store, volumes } = context
  return {
    name: 'fetch',
    weight: 8,
    cancelable: true,
    run: withGuest<RestoreInput>(context, async ({ uuid }, step) => {
      await removeStrays(context, uuid)
      await volumes.discardNext(uuid)
      await makeRoom({ context, capacity }, step)
      await volumes.prepare(uuid, { empty: true }, volumeLimitOf(context, store.get(uuid)))
      await driverOf(context, store.get(uuid)).prepareEmpty(volumes.nextPathOf(uuid))
      await fetchInto(context, step, volumes.nextPathOf(uuid))
      await step.yieldWhile(driverOf(context, store.get(uuid)).trimFetched(volumes.nextPathOf(uuid)))
      const record = store.get(uuid)
      if (step.input.sourceUuid !== uuid) await makeOwn(context, record)
      if (mayRun(record)) store.update(uuid, { status: 'restarting' })
    }),
    undo: ifPresent<RestoreInput>(context, async ({ uuid }, step) => {
      await volumes.discardNext(uuid)
      await endRoom(context, step)
    }),
  }
}

async function fetchInto(
  context: GuestContext,
  step: StepContext<RestoreInput>,
  tree: string,
): Promise<void> {
  const { subject, input } = step
  const at = repositoryOf(context, subject.id, input, input.sourceUuid)
  await step.yieldWhile(context.backups.fetch(at, { id: input.backupId, tree }, step))
}

/**
 * Room for both disks within the guest's bound, until one of them is gone.
 * @throws {BerthError} `backup_too_large`, `storage_full`
 */
async function makeRoom({ context, capacity }: Parts, step: StepContext<RestoreInput>): Promise<void> {
  const { store, backups, machineOf } = context
  const { subject, input } = step
  const at = repositoryOf(context, subject.id, input, input.sourceUuid)
  const sizeBytes = await step.yieldWhile(backups.readSize(at, input.backupId, step))
  const record = store.get(subject.id)
  const limitBytes = driverOf(context, record).volumeLimitBytes(machineOf(record))
  checkFits(sizeBytes, limitBytes)
  const neededBytes = Math.ceil(sizeBytes * overhead) + smallOverheadBytes
  const { totalBytes, usedBytes } = await capacity.readDisk()
  if (totalBytes - usedBytes - planReserveBytes(totalBytes) < neededBytes)
    throw new BerthError('exhausted', 'storage_full', 'the pool has no room for the backup beside the disk')
  const overBytes = Math.max(0, (await usedBytesOf(context, subject.id)) - volumeLimitOf(context, record))
  store.update(subject.id, { fetchedBytes: neededBytes + overBytes })
  await setBound(context, store.get(subject.id))
}

function checkFits(sizeBytes: number, limitBytes: number): void {
  if (limitBytes > 0 && sizeBytes > limitBytes)
    throw new BerthError(
      'conflict',
      'backup_too_large',
      'the backup is larger than the disk of the container',
    )
}

/** What is on its way out counts until it is gone: a guest that runs by then would find its disk full. */
async function endRoom(
  context: GuestContext,
  { subject: { id: uuid }, signal }: StepContext<unknown>,
): Promise<void> {
  const record = context.store.find(uuid)
  if (!record || record.fetchedBytes === 0) return
  const deadline = performance.now() + vanishMs
  while (performance.now() < deadline && !(await context.volumes.areFreed(uuid)))
    await delay(lookMs, undefined, { signal })
  context.store.update(uuid, { fetchedBytes: 0 })
  await setBound(context, context.store.get(uuid))
}

async function usedBytesOf({ volumes }: GuestContext, uuid: string): Promise<number> {
  return (await volumes.usage()).get(uuid) ?? 0
}

async function setBound(context: GuestContext, record: GuestRecord): Promise<void> {
  await context.volumes.resize(record.uuid, volumeLimitOf(context, record))
}

/** Its name and login are those that its owner knows; what else is in it is of the other guest. */
async function makeOwn(context: GuestContext, record: GuestRecord): Promise<void> {
  const next = context.volumes.nextPathOf(record.uuid)
  await driverOf(context, record).initialize(context.machineOf(record), context.openLogin(record), next)
}

async function commit(context: GuestContext, step: StepContext<RestoreInput>): Promise<void> {
  await forgetKept(context, step)
  await endRoom(context, step)
}
