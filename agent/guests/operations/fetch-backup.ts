import { templateIdPattern } from '../../../shared/guest-rules.js'
import type { BackupSize } from '../../backups/contract.js'
import type { OrderOf } from '../../operations/orders.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { TargetVault } from '../../backups/vault.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext, DiskContext, GuestContext } from '../context.js'
import { parseUuid } from '../create/parse-create.js'
import type { GuestRecord } from '../record/record.js'
import { removeStrays } from '../snapshots/snapshots.js'
import { ifPresent, withGuest } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { parseBackupTarget, repositoryOf, type TargetInput } from './backup-order.js'
import { checkBackupFits } from './plan-backup-fit.js'
import { endRoom, makeRoom, noteRestored } from './restore-room.js'

/** Stored input of operations that fetch a backup. */
export interface FetchInput extends TargetInput {
  backupId: string
  /** Uuid of the guest whose disk the backup contains. */
  sourceUuid: string
}

export interface FetchParts {
  readonly context: BackupContext
  readonly capacity: Pick<HostCapacity, 'readDisk'>
}

/** Called after a backup was fetched, with the guest, the facts about the backup and the input of the operation. */
export type OnFetched<Input> = (record: GuestRecord, size: BackupSize, input: Input) => void

const template = new RegExp(templateIdPattern)

/** Checks the request and encrypts its backup target. @throws {BerthError} `invalid_field`, `missing_field` */
export function parseFetch(
  targets: TargetVault,
  uuid: string,
  order: Pick<OrderOf<'backupRestore'>, 'target' | 'backupId' | 'sourceUuid'>,
): FetchInput {
  return {
    ...parseBackupTarget(targets, parseUuid('uuid', uuid), order.target),
    backupId: parseUuid('backup_id', order.backupId),
    sourceUuid: parseUuid('source_uuid', order.sourceUuid),
  }
}

/**
 * Fetches a backup into a new volume next to the guest's volume. If the backup is of another guest, the volume gets
 * this guest's name and login.
 */
export function fetchStep<Input extends FetchInput>(parts: FetchParts, onFetched?: OnFetched<Input>): Step<Input> {
  const { context } = parts
  const { store, volumes } = context
  return {
    name: 'fetch',
    weight: 8,
    cancelable: () => true,
    run: withGuest<Input>(store, async ({ uuid }, step) => {
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
      onFetched?.(record, size, step.input)
    }),
    undo: ifPresent<Input>(store, async ({ uuid }, step) => {
      await volumes.discardNext(uuid)
      await endRoom(context, step)
    }),
  }
}

/** Lowers the disk limit after the fetched volume has become the guest's disk. */
export async function endFetch(context: DiskContext, step: StepContext<unknown>): Promise<void> {
  const { nextExtraBytes: extraBytes } = context.store.get(step.subject.id)
  await endRoom(context, step, { extraBytes })
}

async function readSize(
  context: Pick<BackupContext, 'backups' | 'targets'>,
  step: StepContext<FetchInput>,
): Promise<BackupSize> {
  const { subject, input } = step
  const at = repositoryOf(context.targets, subject.id, input, input.sourceUuid)
  return step.yieldWhile(context.backups.readSize(at, input.backupId, step))
}

/** Creates an empty volume with room for the backup. Replaces the volume of an earlier attempt. */
async function prepareVolume(
  { context, capacity }: FetchParts,
  { subject: { id: uuid }, signal }: StepContext<FetchInput>,
  size: BackupSize,
): Promise<void> {
  const { store, volumes } = context
  await makeRoom(context, { uuid, size, signal }, capacity)
  await volumes.prepare(uuid, { empty: true }, volumeLimitOf(context.machines, store.get(uuid)))
  await context.machines.driverOf(store.get(uuid)).prepareEmpty(volumes.nextPathOf(uuid))
}

async function fetchInto(parts: FetchParts, step: StepContext<FetchInput>, size: BackupSize): Promise<void> {
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
