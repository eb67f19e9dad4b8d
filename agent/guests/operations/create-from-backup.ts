import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import { BerthError, invalidField } from '../../../shared/errors.js'
import type { Step, StepContext } from '../../operations/types.js'
import type { AcceptedOrder, OperationKind, OrderOf } from '../../operations/orders.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { decodeFirewall } from '../snapshots/backup-settings.js'
import { removeVolumes } from '../snapshots/snapshots.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { parseUuid } from '../create/parse-create.js'
import { StandbyCopies } from '../standby/standby-copies.js'
import { isStandbySnapshot } from '../record/standby-ids.js'
import type { ChosenAddresses } from '../create/reserve.js'
import { freePorts, giveBackAddresses, parseFormer, takeAddresses, takeOver } from './take-over.js'
import { ifPresent, removeFromHost, withGuest, type GuestStep } from '../steps.js'
import { acceptCreate, createEnd, firstBootSteps, type CreateInput } from './create.js'
import { noteCopied } from './restore-room.js'
import { endFetch, fetchStep, parseFetch, type FetchInput, type OnFetched } from './fetch-backup.js'

interface CreateFromBackupInput extends CreateInput, FetchInput {
  /** True if the request contained a firewall, which replaces the firewall that the backup recorded. */
  hasFirewall?: boolean
  /** Id of the standby from whose copy the disk is made. Absent: the disk is fetched from a backup. */
  standbyId?: string
}

/**
 * Creates a guest whose disk is restored from a backup. The backup can be of a deleted guest, or of a guest on another
 * host. The template is only recorded, because the guest needs no image.
 */
export function createFromBackupKind(
  context: BackupContext,
  capacity: HostCapacity,
  copies = new StandbyCopies({ context, capacity }),
): OperationKind<'createFromBackup', CreateFromBackupInput, GuestRecord> {
  return {
    action: 'create-from-backup',
    accept: (order, { operationId }) => accept({ context, capacity, copies }, order, operationId),
    steps: [
      volumeStep(context, copies),
      unlessFromStandby(fetchStep({ context, capacity }, restoreFetched(context))),
      { name: 'exchange', run: async ({ subject }) => void (await context.volumes.exchange(subject.id)) },
      ...firstBootSteps(context, { prepare: (work) => work(), start: (_step, boot) => boot() }),
      { name: 'forget', run: (step) => forget(context, step) },
    ],
    ...endOf(context, copies),
  }
}

/** Like `createEnd`. If the guest was removed again, its addresses of shared pools leave this host's pool, too. */
function endOf(context: BackupContext, { journal }: StandbyCopies): ReturnType<typeof createEnd> {
  const end = createEnd(context)
  return {
    ...end,
    settle: (operation, outcome) => {
      end.settle(operation, outcome)
      const { id } = operation.subject
      if (!context.store.find(id)) giveBackAddresses(context, id)
      else if (outcome.status === 'done') useCopied(context, journal, id)
    },
  }
}

/**
 * Gives the guest the history that its standby has received, and forgets the copy. After a failed restore, the copy stays,
 * so that it can be used again.
 */
function useCopied({ history }: BackupContext, journal: StandbyCopies['journal'], uuid: string): void {
  const copy = journal.find(uuid)
  if (!copy) return
  history.adopt({ transferId: copy.standbyId, uuid })
  journal.forget(uuid)
  history.prune()
}

/** Skips the step if the disk is made from the copy of a standby. */
function unlessFromStandby(step: Step<CreateFromBackupInput>): Step<CreateFromBackupInput> {
  return {
    ...step,
    run: async (at) => {
      if (at.input.standbyId === undefined) await step.run(at)
    },
  }
}

/** Deletes the copy of the guest's standby. The disk was made from it, or from a backup, which is readable then. */
async function forget(context: BackupContext, step: StepContext<CreateFromBackupInput>): Promise<void> {
  const { id: uuid } = step.subject
  // An error must not undo the restore. The next start of the agent deletes the remaining snapshots.
  await deleteCopy(context, uuid).catch((err: unknown) =>
    step.log.warn({ err, guest: uuid }, 'could not delete the copy of the standby of a restored guest'),
  )
  if (step.input.standbyId === undefined) await endFetch(context, step)
}

async function deleteCopy({ volumes }: BackupContext, uuid: string): Promise<void> {
  for (const id of await volumes.listSnapshots(uuid)) if (isStandbySnapshot(id)) await volumes.deleteSnapshot(uuid, id)
}

function restoreFetched(context: BackupContext): OnFetched<CreateFromBackupInput> {
  return ({ uuid }, { firewall }, input) => restoreFirewall(context, { uuid, firewall }, input)
}

/** Sets the recorded firewall, unless the request contained another one. Must precede the first start. */
function restoreFirewall(
  { store }: BackupContext,
  { uuid, firewall = '' }: { readonly uuid: string; readonly firewall: string | undefined },
  { hasFirewall = false }: CreateFromBackupInput,
): void {
  if (firewall !== '' && !hasFirewall) store.update(uuid, { firewall: decodeFirewall(firewall) })
}

interface AcceptParts {
  readonly context: BackupContext
  readonly capacity: HostCapacity
  readonly copies: StandbyCopies
}

async function accept(
  parts: AcceptParts,
  order: OrderOf<'createFromBackup'>,
  operationId: string,
): Promise<AcceptedOrder<CreateFromBackupInput>> {
  const { create } = order
  if (!create) throw new BerthError('invalid', 'missing_field', 'create: is required', { field: 'create' })
  const fetched = parseSource(parts.context, create.uuid, order)
  const former = parseFormer(order)
  const planPorts =
    former &&
    ((wanted: CheckedMapping[], listening: ReadonlySet<string>) => freePorts(parts.context, wanted, listening))
  const chooseAddresses = former && ((): ChosenAddresses => takeAddresses(parts.context, create.uuid, order))
  const how = {
    ...parts,
    checkTemplate: () => undefined,
    isOnHost: fetched.standbyId !== undefined,
    ...(planPorts && { planPorts }),
    ...(chooseAddresses && { chooseAddresses }),
  }
  const accepted = await acceptCreate(how, create, operationId)
  const { target: _sealed, ...told } = fetched
  return {
    ...accepted,
    input: { ...accepted.input, ...fetched, hasFirewall: create.firewall !== undefined },
    hashOf: { create: accepted.hashOf, ...told, generation: order.generation },
    reserve: () => {
      if (fetched.standbyId !== undefined) parts.copies.refuseMissing(create.uuid, fetched.standbyId)
      if (former) takeOver(parts.context, create.uuid, order.generation)
      accepted.reserve()
      if (former) parts.context.store.update(create.uuid, former)
    },
  }
}

/** Returns where the disk comes from. @throws {BerthError} `invalid_field`, `missing_field`, `unsupported` */
function parseSource(
  { targets }: BackupContext,
  uuid: string,
  order: OrderOf<'createFromBackup'>,
): FetchInput & Pick<CreateFromBackupInput, 'standbyId'> {
  if (order.standbyId === '') return parseFetch(targets, uuid, order)
  if (order.create?.spec?.virtualization !== 'lxc')
    throw new BerthError('invalid', 'unsupported', 'only LXC containers can have a warm standby')
  if (order.generation === 0)
    throw invalidField('standby_id', 'standby_id: only a guest of a failed host can be restored from a standby')
  const standbyId = parseUuid('standby_id', order.standbyId)
  return { targetId: '', target: '', backupId: '', sourceUuid: parseUuid('source_uuid', order.sourceUuid), standbyId }
}

/** Creates an empty disk, which the fetched disk replaces; or makes the disk from the copy of a standby. */
function volumeStep(context: BackupContext, copies: StandbyCopies): GuestStep<CreateFromBackupInput> {
  const { store, volumes, machines } = context
  const useCopy = async (uuid: string, input: CreateFromBackupInput): Promise<{ snapshot: string }> => {
    const { snapshot, firewall } = await copies.getComplete(uuid, input.standbyId!)
    await noteCopied(context, uuid, snapshot)
    restoreFirewall(context, { uuid, firewall }, input)
    return { snapshot }
  }
  return {
    name: 'volume',
    run: withGuest<CreateFromBackupInput>(store, async ({ uuid }, { input }) => {
      const source = input.standbyId === undefined ? ({ empty: true } as const) : await useCopy(uuid, input)
      await volumes.prepare(uuid, source, volumeLimitOf(machines, store.get(uuid)))
      await volumes.exchange(uuid)
    }),
    undo: ifPresent<CreateFromBackupInput>(store, async (record) => {
      if (copies.journal.find(record.uuid) === undefined) return removeFromHost(context, record)
      await machines.driverOf(record).delete(machines.of(record)) // the guest is detached already
      await removeVolumes(context, record.uuid)
    }),
  }
}
