import { templateIdPattern } from '../../../shared/guest-rules.js'
import type { BackupSize } from '../../backups/contract.js'
import type { OperationKind, OrderOf } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext, DiskContext, GuestContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import type { GuestRecord } from '../record/record.js'
import { refuseSuspended } from '../policy/policy.js'
import { removeStrays } from '../snapshots/snapshots.js'
import { ifPresent, withGuest } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { parseBackupTarget, repositoryOf, type TargetInput } from './backup-order.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { checkBackupFits } from './plan-backup-fit.js'
import { mayRun } from '../policy/policy.js'
import { forgetKept, replaceDiskSteps } from './replace-disk.js'
import { endRoom, makeRoom, noteRestored } from './restore-room.js'
import { settleRestore } from './settle-restore.js'
import type { TargetVault } from '../../backups/vault.js'

interface RestoreInput extends TargetInput {
  backupId: string
  sourceUuid: string
  /** The guest is killed instead of shut down, because its last writes are discarded anyway. */
  force: true
}

const template = new RegExp(templateIdPattern)

interface Parts {
  readonly context: BackupContext
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/**
 * Restores a backup. The backup is fetched into a new volume while the guest runs. The volume then replaces the disk,
 * as in the restore of a snapshot. If the backup is of another guest, the volume gets this guest's name and login.
 */
export function backupRestoreKind(
  context: BackupContext,
  capacity: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'backupRestore', RestoreInput> {
  return {
    action: 'backup-restore',
    accept: (order, asked) => {
      const input = parseRestore(context.targets, order)
      const { target: _sealed, ...told } = input
      const check = (record: GuestRecord): void => {
        refuseBroken(record)
        refuseSuspended(record)
      }
      return {
        ...acceptForGuest(context.store, asked, { uuid: order.uuid, input, check }),
        hashOf: told,
      }
    },
    steps: replaceDiskSteps(context, {
      prepare: fetchStep({ context, capacity }),
      commit: { name: 'forget', run: (step) => commit(context, step) },
    }),
    settle: (operation, outcome) => settleRestore(context, operation, outcome),
  }
}

/** Checks the request and encrypts its backup target. @throws {BerthError} `invalid_field`, `missing_field` */
function parseRestore(targets: TargetVault, order: OrderOf<'backupRestore'>): RestoreInput {
  return {
    ...parseBackupTarget(targets, parseUuid('uuid', order.uuid), order.target),
    backupId: parseUuid('backup_id', order.backupId),
    sourceUuid: parseUuid('source_uuid', order.sourceUuid),
    force: true,
  }
}

function fetchStep(parts: Parts): Step<RestoreInput> {
  const { context } = parts
  const { store, volumes } = context
  return {
    name: 'fetch',
    weight: 8,
    cancelable: true,
    run: withGuest<RestoreInput>(store, async ({ uuid }, step) => {
      await removeStrays(context, uuid)
      await volumes.discardNext(uuid)
      const size = await readSize(context, step)
      checkBackupFits(store.get(uuid).spec, size)
      await prepareVolume(parts, step, size)
      await fetchInto(parts, step, size)
      await step.yieldWhile(context.machines.driverOf(store.get(uuid)).trimFetched(volumes.nextPathOf(uuid)))
      const record = store.get(uuid)
      if (step.input.sourceUuid !== uuid) await makeOwn(context, record, size)
      await noteRestored(context, uuid, size)
      if (mayRun(record)) store.update(uuid, { status: 'restarting' })
    }),
    undo: ifPresent<RestoreInput>(store, async ({ uuid }, step) => {
      await volumes.discardNext(uuid)
      await endRoom(context, step)
    }),
  }
}

async function readSize(
  context: Pick<BackupContext, 'backups' | 'targets'>,
  step: StepContext<RestoreInput>,
): Promise<BackupSize> {
  const { subject, input } = step
  const at = repositoryOf(context.targets, subject.id, input, input.sourceUuid)
  return step.yieldWhile(context.backups.readSize(at, input.backupId, step))
}

/** Creates an empty volume with room for the backup. Replaces the volume of an earlier attempt. */
async function prepareVolume(
  { context, capacity }: Parts,
  { subject: { id: uuid }, signal }: StepContext<RestoreInput>,
  size: BackupSize,
): Promise<void> {
  const { store, volumes } = context
  await makeRoom(context, { uuid, size, signal }, capacity)
  await volumes.prepare(uuid, { empty: true }, volumeLimitOf(context.machines, store.get(uuid)))
  await context.machines.driverOf(store.get(uuid)).prepareEmpty(volumes.nextPathOf(uuid))
}

async function fetchInto(parts: Parts, step: StepContext<RestoreInput>, size: BackupSize): Promise<void> {
  const { context } = parts
  const { subject, input } = step
  const at = repositoryOf(context.targets, subject.id, input, input.sourceUuid)
  const image = findImage(context, [size.templateId, context.store.get(subject.id).spec.templateId])
  const tree = context.volumes.nextPathOf(subject.id)
  const makeWholeRoom = () => prepareVolume(parts, step, { ...size, savedBytes: 0 })
  const fetched = { id: input.backupId, tree, makeWholeRoom, ...(image !== undefined && { image }) }
  await step.yieldWhile(context.backups.fetch(at, fetched, step))
}

/** Returns the path of an image that contains some of the backup's data, if the host has one. */
function findImage(
  { images, volumes }: Pick<BackupContext, 'images' | 'volumes'>,
  templateIds: readonly (string | undefined)[],
): string | undefined {
  const found = templateIds.find((id) => id !== undefined && template.test(id) && images.has(id))
  return found === undefined ? undefined : volumes.imagePathOf(found)
}

/** Writes this guest's name and login to the restored volume of another guest, so that both guests can run. */
async function makeOwn(
  context: Pick<GuestContext, 'machines' | 'volumes' | 'logins'>,
  record: GuestRecord,
  { resolvers }: BackupSize,
): Promise<void> {
  const volume = context.volumes.nextPathOf(record.uuid)
  const copy = { volume, ...(resolvers && { resolvers }) }
  await context.machines.driverOf(record).adopt(context.machines.of(record), context.logins.open(record), copy)
}

async function commit(context: DiskContext, step: StepContext<RestoreInput>): Promise<void> {
  await forgetKept(context, step)
  const { nextExtraBytes: extraBytes } = context.store.get(step.subject.id)
  await endRoom(context, step, { extraBytes })
}
