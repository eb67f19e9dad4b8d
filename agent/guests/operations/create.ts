import { conflict } from '../../../shared/errors.js'
import { readListeningPorts } from '../../network/ports.js'
import type { Accepted, OperationKind } from '../../operations/orders.js'
import type { Step } from '../../operations/types.js'
import { checkRoom } from '../../storage/room.js'
import { checkCapacity, type HostCapacity } from '../capacity.js'
import type { GuestContext } from '../context.js'
import { parseCreate, type CreateRequest } from '../parse-create.js'
import { hashableLogin } from '../parse-login.js'
import { reserveGuest } from '../reserve.js'
import { attachStep, configureStep, diskStep, startStep } from '../steps.js'
import { guestSubject } from './guest-order.js'
import { broken, settled } from './outcomes.js'

const gib = 1024 ** 3

interface CreateInput {
  start: boolean
}

/** Creates a guest. Answers with the guest and its password, which is empty in key mode. */
export function createKind(
  context: GuestContext,
  capacity: HostCapacity,
): OperationKind<'create', CreateInput> {
  return {
    action: 'create',
    accept: (order, { operationId }) => acceptCreate({ context, capacity }, parseCreate(order), operationId),
    steps: [
      diskStep(context),
      configureStep(context),
      attachStep(context, { undo: true }),
      ifStarted(startStep(context)),
    ],
    settle: ({ subject: { id }, input }, outcome) => {
      if (outcome.status === 'done') settled(context, id, input.start ? 'running' : 'stopped')
      else if (outcome.status === 'failed' && !outcome.undone) broken(context, id, outcome.message)
      else context.store.remove(id) // nothing of it is left on the host
    },
    answer: ({ subject, status, error }) => {
      const guest = context.store.find(subject.id)
      if (!guest && status !== 'done') throw conflict('invalid_state', error || 'the creation was undone')
      return { guest, sshPassword: guest ? (context.openLogin(guest).password ?? '') : '' }
    },
  }
}

/**
 * @throws {BerthError} `invalid_field`, `resource_exhausted`; later `image_disabled`, `name_conflict`, `port_conflict`,
 * `address_in_use`, `resource_exhausted`, `invalid_field`, `unsupported`
 */
async function acceptCreate(
  { context, capacity }: { context: GuestContext; capacity: HostCapacity },
  order: CreateRequest,
  operationId: string,
): Promise<Accepted<CreateInput>> {
  const { uuid, id, name, templateId, virtualization, limits, portMappings, start } = order
  checkCapacity(limits, capacity)
  const disk = await capacity.readDisk()
  const listening = await readListeningPorts([...new Set(portMappings.map(({ protocol }) => protocol))])
  return {
    subject: { ...guestSubject(uuid), name, number: id },
    input: { start },
    hashOf: { ...order, operationId, requestedBy: '', login: hashableLogin(context, order.login) },
    // Only a new order needs these: the answer to a repeated one may come when the pool is full.
    reserve: () => {
      context.images.checkUsable(templateId, virtualization)
      checkRoom(disk, limits.diskGb * gib)
      reserveGuest(context, order, listening)
    },
  }
}

function ifStarted(step: Step<unknown>): Step<CreateInput> {
  return { ...step, run: async (context) => (context.input.start ? step.run(context) : undefined) }
}
