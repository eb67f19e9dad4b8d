import type { Ratios } from '../../../shared/allocation.js'
import { allEnded } from '../../../shared/all-ended.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { parseUserData } from '../../../shared/first-boot/user-data.js'
import type { DriverKind } from '../../drivers/drivers.js'
import { readListeningPorts } from '../../network/ports.js'
import type { AcceptedOrder, OperationKind } from '../../operations/orders.js'
import { checkRoom } from '../../storage/room.js'
import { checkAllocation } from '../create/allocation.js'
import { checkCapacity, type HostCapacity } from '../resources/capacity.js'
import type { GuestContext } from '../context.js'
import { checkDevices } from '../resources/devices.js'
import { parseCreate, type CreateRequest } from '../create/parse-create.js'
import { hashableLogin, loginFor } from '../create/parse-login.js'
import type { GuestRecord } from '../record/record.js'
import { reserveGuest } from '../create/reserve.js'
import { configureStep, diskStep, startStep, type GuestStep } from '../steps.js'
import { DisksFirst } from './disks-first.js'
import { guestSubject } from './guest-order.js'
import { broken, settled } from './outcomes.js'
import type { GuestMachines } from '../machines.js'

const gib = 1024 ** 3

interface CreateInput {
  start: boolean
}

/** Creates a guest. The answer contains the guest and its password, which is empty for a login with a key. */
export function createKind(
  context: GuestContext,
  capacity: HostCapacity,
): OperationKind<'create', CreateInput, GuestRecord> {
  return {
    action: 'create',
    accept: (order, { operationId }) => {
      const parsed = parseCreate(order)
      const templateId = context.images.idFor(parsed.templateId, parsed.virtualization)
      const os = context.images.osOf(templateId)
      const login = loginFor(os, parsed.login)
      const userData = parsed.userData === '' ? '' : parseUserData(parsed.userData, os).text
      const { overcommit } = order
      return acceptCreate({ context, capacity, overcommit }, { ...parsed, templateId, login, userData }, operationId)
    },
    steps: createSteps(context),
    settle: ({ subject: { id }, input }, outcome) => {
      if (outcome.status === 'done') {
        const isStarted = input.start && !isStoppedBySuspension(context.store.get(id))
        settled(context.store, id, isStarted ? 'running' : 'stopped')
      } else if (outcome.status === 'failed' && !outcome.undone) broken(context.store, id, outcome.message)
      else context.store.remove(id) // no step ran, or all of them were undone
    },
    answer: ({ subject, status, error }) => {
      const guest = context.store.find(subject.id)
      if (!guest && status !== 'done')
        throw conflict('invalid_state', error || 'the creation of the container was undone')
      return { guest, sshPassword: guest ? (context.logins.open(guest).password ?? '') : '' }
    },
  }
}

/**
 * Checks and accepts a request to create a guest.
 * @throws {BerthError} `invalid_field`, `resource_exhausted`; the returned `reserve` throws `image_disabled`,
 * `name_conflict`, `port_conflict`, `address_in_use`, `resource_exhausted`, `invalid_field`, `unsupported`
 */
async function acceptCreate(
  { context, capacity, overcommit }: { context: GuestContext; capacity: HostCapacity; overcommit: Ratios | undefined },
  order: CreateRequest,
  operationId: string,
): Promise<AcceptedOrder<CreateInput>> {
  const { uuid, id, name, templateId, virtualization, limits, portMappings, start } = order
  checkDriver(context.machines, virtualization)
  checkDevices(order.devices, virtualization)
  checkCapacity(limits, capacity)
  const protocols = new Set(portMappings.map(({ protocol }) => protocol))
  const [disk, listening] = await allEnded([capacity.readDisk(), readListeningPorts([...protocols])])
  return {
    subject: { ...guestSubject(uuid), name, number: id },
    input: { start },
    hashOf: { ...order, operationId, requestedBy: '', login: hashableLogin(context.logins, order.login) },
    // Only a new request is checked. A repeated request must be answered even if the host has become full.
    reserve: () => {
      context.images.checkUsable(templateId, virtualization)
      checkRoom(disk, limits.diskGb * gib)
      checkAllocation(context.store.list(), limits, { capacity, disk, overcommit })
      reserveGuest(context, order, listening)
    },
  }
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
  const configure = configureStep(context, { undo: true })
  const start = startStep(context, isStoppedBySuspension) // a suspended guest is created, but not started
  return [
    diskStep(context, (makeDisk) => disksFirst.prepare(makeDisk)),
    { ...configure, run: (step) => disksFirst.prepare(() => configure.run(step)) },
    {
      ...start,
      run: async (step) => {
        if (step.input.start) await disksFirst.start(step, () => start.run(step))
      },
    },
  ]
}
