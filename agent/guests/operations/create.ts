import { allEnded } from '../../../shared/all-ended.js'
import { BerthError, conflict, invalidField } from '../../../shared/errors.js'
import { parseUserData } from '../../../shared/first-boot/user-data.js'
import type { CheckedMapping } from '../../../shared/port-mapping-rules.js'
import type { DriverKind } from '../../drivers/drivers.js'
import { readListeningPorts } from '../../network/ports.js'
import type { StepContext } from '../../operations/types.js'
import type { AcceptedOrder, OperationKind, OrderOf } from '../../operations/orders.js'
import { checkRoom } from '../../storage/room.js'
import { checkAllocation, listPresent } from '../create/allocation.js'
import { checkCapacity, type HostCapacity } from '../resources/capacity.js'
import type { BackupContext, GuestContext } from '../context.js'
import { checkDevices } from '../resources/devices.js'
import { parseCreate, type CreateRequest } from '../create/parse-create.js'
import { hashableLogin, loginFor } from '../create/parse-login.js'
import type { GuestRecord } from '../record/record.js'
import { importDisk } from '../create/import-disk.js'
import { reserveGuest, type ChosenAddresses } from '../create/reserve.js'
import { configureStep, diskStep, startStep, type GuestStep } from '../steps.js'
import { DisksFirst } from './disks-first.js'
import { guestSubject } from './guest-order.js'
import { broken, settled } from './outcomes.js'
import { freePorts } from './take-over.js'
import type { GuestMachines } from '../machines.js'

const gib = 1024 ** 3

export interface CreateInput {
  start: boolean
  /** Id of the import that supplies the files. Absent: the disk is made from the template. */
  importId?: string
}

/** Creates a guest. The answer contains the guest and its password, which is empty for a login with a key. */
export function createKind(
  context: BackupContext,
  capacity: HostCapacity,
): OperationKind<'create', CreateInput, GuestRecord> {
  return {
    action: 'create',
    accept: (order, { operationId }) => acceptCreate({ context, capacity }, order, operationId),
    steps: createSteps(context),
    ...createEnd(context),
  }
}

/** Returns `settle` and `answer`, which all operations that create a guest share. */
export function createEnd(
  context: GuestContext,
): Required<Pick<OperationKind<'create', CreateInput, GuestRecord>, 'settle' | 'answer'>> {
  return {
    settle: ({ subject: { id }, input }, outcome) => {
      if (input.importId !== undefined) context.imports.end(input.importId)
      if (outcome.status === 'done') {
        const isStarted = input.start && !isStoppedBySuspension(context.store.get(id))
        settled(context.store, id, isStarted ? 'running' : 'stopped')
      } else if (outcome.status === 'failed' && !outcome.undone) broken(context.store, id, outcome.message)
      else context.store.remove(id) // no step ran, or all of them were undone
    },
    answer: ({ subject, status, error }) => {
      const guest = context.store.find(subject.id)
      if (!guest && status !== 'done')
        throw conflict('invalid_state', error || 'the container was not created: its creation was undone')
      return { guest, sshPassword: guest ? (context.logins.open(guest).password ?? '') : '' }
    },
  }
}

export interface CreateParts {
  readonly context: BackupContext
  readonly capacity: HostCapacity
  /** Checks that a disk can be made from the template. Default: checks that guests can be created from it. */
  readonly checkTemplate?: (templateId: string, virtualization: DriverKind) => void
  /** Chooses host ports before their reservation, in its transaction. Default: the requested ports. */
  readonly planPorts?: (wanted: CheckedMapping[], listening: ReadonlySet<string>) => CheckedMapping[]
  /** Chooses the public addresses in the transaction of the reservation. Default: the requested ones. */
  readonly chooseAddresses?: () => ChosenAddresses
  /** True if the data of the disk is on this host already, so that the guest can be created even in a full pool. */
  readonly isOnHost?: boolean
}

/**
 * Checks and accepts a request to create a guest.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`; the returned `reserve` throws `image_disabled`,
 * `name_conflict`, `port_conflict`, `address_in_use`, `resource_exhausted`, `invalid_field`, `import_interrupted`,
 * `unsupported`
 */
export async function acceptCreate(
  parts: CreateParts,
  wire: OrderOf<'create'>,
  operationId: string,
): Promise<AcceptedOrder<CreateInput>> {
  const { context, capacity, chooseAddresses, isOnHost = false } = parts
  const { checkTemplate = (id, kind) => context.images.checkUsable(id, kind) } = parts
  const order = settleTemplate(context, parseCreate(wire))
  const { uuid, id, name, templateId, virtualization, limits, portMappings, start, importId } = order
  checkImport(importId, operationId)
  const planPorts = parts.planPorts ?? portPlanOf(context, importId)
  checkDriver(context.machines, virtualization)
  checkDevices(order.devices, virtualization)
  checkCapacity(limits, capacity)
  const protocols = new Set(portMappings.map(({ protocol }) => protocol))
  const [disk, listening] = await allEnded([capacity.readDisk(), readListeningPorts([...protocols])])
  return {
    subject: { ...guestSubject(uuid), name, number: id },
    input: { start, ...(importId !== '' && { importId }) },
    hashOf: { ...order, ...hashableSecrets(context, order), operationId, requestedBy: '' },
    // Only a new request is checked. A repeated request must be answered even if the host has become full.
    reserve: () => {
      if (importId === '') checkTemplate(templateId, virtualization)
      else context.imports.order(importId)
      if (!isOnHost) checkRoom(disk, limits.diskGb * gib)
      checkAllocation(listPresent(context.store, uuid), limits, { capacity, disk, overcommit: wire.overcommit })
      const addresses = chooseAddresses?.()
      reserveGuest(context, { ...order, portMappings: planPorts(portMappings, listening) }, { listening, addresses })
    },
  }
}

/**
 * Plans the mappings of a received archive. Replaces host ports that are in use on this host. Omits mappings of
 * addresses that this host does not have, because they must not apply to its other addresses.
 */
function portPlanOf(context: GuestContext, importId: string): NonNullable<CreateParts['planPorts']> {
  if (importId === '' || !context.imports.isUpload(importId)) return (wanted) => wanted
  const hasAddress = (hostIp: string): boolean => context.ports.hasHostIp(hostIp)
  return (wanted, listening) =>
    freePorts(
      context,
      wanted.filter(({ hostIp }) => hasAddress(hostIp)),
      listening,
      hasAddress,
    )
}

/** Returns the request with the template, login and user data that fit the guest's kind and operating system. */
function settleTemplate({ images }: GuestContext, parsed: CreateRequest): CreateRequest {
  const templateId = images.idFor(parsed.templateId, parsed.virtualization)
  const os = images.osOf(templateId)
  const userData = parsed.userData === '' ? '' : parseUserData(parsed.userData, os).text
  return { ...parsed, templateId, login: loginFor(os, parsed.login), userData }
}

/** The creation of an imported guest has the id of the import, so that the operator can follow the creation. */
function checkImport(importId: string, operationId: string): void {
  if (importId !== '' && importId !== operationId)
    throw invalidField('import_id', 'import_id: must be the id of the operation that creates the container')
}

/** Prepares fields for a request's hash. Omits secrets, and data of the backup target that can differ in a repeat. */
function hashableSecrets({ logins }: GuestContext, { login, backupSchedule: schedule }: CreateRequest) {
  const { intervalHours, time, retention, target } = schedule ?? {}
  const runs = schedule && { intervalHours, time, retention, targetId: target?.id }
  return { login: hashableLogin(logins, login), backupSchedule: runs }
}

/** Checks that the host can run guests of this kind. @throws {BerthError} `unsupported` */
function checkDriver(machines: GuestMachines, kind: DriverKind): void {
  if (machines.findDriver(kind)) return
  throw new BerthError('invalid', 'unsupported', `virtualization: ${kind} is not available on this host`, {
    field: 'virtualization',
  })
}

function isStoppedBySuspension({ suspension }: GuestRecord): boolean {
  return suspension?.mode === 'stop'
}

function createSteps(context: GuestContext): GuestStep<CreateInput>[] {
  const disksFirst = new DisksFirst()
  const prepare = (makeDisk: () => Promise<void>): Promise<void> => disksFirst.prepare(makeDisk)
  const start = (step: StepContext<CreateInput>, boot: () => Promise<void>) => disksFirst.start(step, boot)
  const disk = diskStep(context, prepare)
  const makeDisk: GuestStep<CreateInput> = {
    ...disk,
    cancelable: ({ importId }) => importId !== undefined,
    run: (step) => (step.input.importId === undefined ? disk.run(step) : importDisk(context, step)),
  }
  return [makeDisk, ...firstBootSteps(context, { prepare, start })]
}

interface FirstBoot {
  /** Called with the function that prepares the first boot. Must call this function. */
  readonly prepare: (work: () => Promise<void>) => Promise<void>
  /** Called with the function that boots the guest for the first time. Must call this function. */
  readonly start: (step: StepContext<CreateInput>, boot: () => Promise<void>) => Promise<void>
}

/** Returns the steps that follow the creation of a guest's disk: its configuration, and its start if requested. */
export function firstBootSteps(context: GuestContext, around: FirstBoot): GuestStep<CreateInput>[] {
  const configure = configureStep(context, { undo: true })
  const start = startStep(context, isStoppedBySuspension) // a suspended guest is created, but not started
  return [
    { ...configure, run: (step) => around.prepare(() => configure.run(step)) },
    {
      ...start,
      run: async (step) => {
        if (step.input.start) await around.start(step, () => start.run(step))
      },
    },
  ]
}
