import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import { BerthError } from '../../../shared/errors.js'
import type { AcceptedOrder, OperationKind, OrderOf } from '../../operations/orders.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { decodeFirewall } from '../snapshots/backup-settings.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import type { ChosenAddresses } from '../create/reserve.js'
import { freePorts, giveBackAddresses, parseFormer, takeAddresses, takeOver } from './take-over.js'
import { ifPresent, removeFromHost, withGuest, type GuestStep } from '../steps.js'
import { acceptCreate, createEnd, firstBootSteps, type CreateInput } from './create.js'
import { endFetch, fetchStep, parseFetch, type FetchInput, type OnFetched } from './fetch-backup.js'

interface CreateFromBackupInput extends CreateInput, FetchInput {
  /** True if the request contained a firewall, which replaces the firewall that the backup recorded. */
  hasFirewall?: boolean
}

/**
 * Creates a guest whose disk is restored from a backup. The backup can be of a deleted guest, or of a guest on another
 * host. The template is only recorded, because the guest needs no image.
 */
export function createFromBackupKind(
  context: BackupContext,
  capacity: HostCapacity,
): OperationKind<'createFromBackup', CreateFromBackupInput, GuestRecord> {
  return {
    action: 'create-from-backup',
    accept: (order, { operationId }) => accept({ context, capacity }, order, operationId),
    steps: [
      volumeStep(context),
      fetchStep({ context, capacity }, restoreFirewall(context)),
      { name: 'exchange', run: async ({ subject }) => void (await context.volumes.exchange(subject.id)) },
      ...firstBootSteps(context, { prepare: (work) => work(), start: (_step, boot) => boot() }),
      { name: 'forget', run: (step) => endFetch(context, step) },
    ],
    ...endOf(context),
  }
}

/** Like `createEnd`. If the guest was removed again, its addresses of shared pools leave this host's pool, too. */
function endOf(context: BackupContext): ReturnType<typeof createEnd> {
  const end = createEnd(context)
  return {
    ...end,
    settle: (operation, outcome) => {
      end.settle(operation, outcome)
      const { id } = operation.subject
      if (!context.store.find(id)) giveBackAddresses(context, id)
    },
  }
}

function restoreFirewall({ store }: BackupContext): OnFetched<CreateFromBackupInput> {
  return ({ uuid }, { firewall }, { hasFirewall = false }) => {
    if (firewall !== undefined && !hasFirewall) store.update(uuid, { firewall: decodeFirewall(firewall) })
  }
}

async function accept(
  parts: { readonly context: BackupContext; readonly capacity: HostCapacity },
  order: OrderOf<'createFromBackup'>,
  operationId: string,
): Promise<AcceptedOrder<CreateFromBackupInput>> {
  const { create } = order
  if (!create) throw new BerthError('invalid', 'missing_field', 'create: is required', { field: 'create' })
  const fetched = parseFetch(parts.context.targets, create.uuid, order)
  const former = parseFormer(order)
  const planPorts =
    former &&
    ((wanted: CheckedMapping[], listening: ReadonlySet<string>) => freePorts(parts.context, wanted, listening))
  const chooseAddresses = former && ((): ChosenAddresses => takeAddresses(parts.context, create.uuid, order))
  const how = {
    ...parts,
    checkTemplate: () => undefined,
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
      if (former) takeOver(parts.context, create.uuid, order.generation)
      accepted.reserve()
      if (former) parts.context.store.update(create.uuid, former)
    },
  }
}

/** Creates an empty disk. The fetched disk replaces it, like the disk of an existing guest. */
function volumeStep(context: BackupContext): GuestStep<unknown> {
  const { store, volumes, machines } = context
  return {
    name: 'volume',
    run: withGuest(store, async (record) => {
      await volumes.prepare(record.uuid, { empty: true }, volumeLimitOf(machines, record))
      await volumes.exchange(record.uuid)
    }),
    undo: ifPresent(store, (record) => removeFromHost(context, record)),
  }
}
