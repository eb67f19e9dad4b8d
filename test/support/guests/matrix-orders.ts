import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import type { Domain } from '../../../agent/daemon/domain.js'
import { guestKinds } from '../../../agent/guests/operations/kinds.js'
import type { OperationEngine } from '../../../agent/operations/engine.js'
import { Orders } from '../../../agent/operations/orders.js'
import type { OperationDefinition, OperationRecord } from '../../../agent/operations/types.js'
import type { SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import {
  createOrder,
  createRequest,
  powerOrder,
  reinstallOrder,
  resetPasswordOrder,
  wireMapping,
  type PowerAction,
} from '../host/agent-calls.js'
import type { MatrixGuest } from './matrix-guests.js'

/** Password that the operations under test set. */
export const newPassword = 'matrix-word-1'
/** Id of the snapshot that was taken before the test changed the disk. */
export const snapshotId = '00000000-0000-4000-8000-00000000b00a'
export const guestUuid = '00000000-0000-4000-8000-00000000b001'
const capacity = {
  cpuCores: 2,
  ramTotalMb: 4096,
  readDisk: () => Promise.resolve({ totalBytes: 64 * 1024 ** 3, usedBytes: 0 }),
}

type Order = NonNullable<SubmitOperationRequest['order']>

export type GuestAction = PowerAction | 'create' | 'resetPassword' | 'reinstall' | 'snapshotRestore' | 'changeBoot'

/** State of the guest before the operation that is tested. */
export type GuestBefore = 'absent' | 'stopped' | 'running' | 'rescued'

export interface Made {
  readonly domain: Domain
  readonly guest: Pick<MatrixGuest, 'spec' | 'templates'>
}

export function definitionOf({ domain }: Made, action: GuestAction): OperationDefinition<unknown> {
  return guestKinds(domain.context, capacity)[action]
}

/** Creates the guest of a test in the given state. */
export async function bringTo(made: Made, before: GuestBefore): Promise<void> {
  if (before !== 'absent') await order(made, 'create', { start: before !== 'stopped' })
  if (before === 'rescued') await order(made, 'changeBoot')
}

export function takeSnapshot(made: Made): Promise<void> {
  return carryOut(made, { $case: 'snapshotCreate', value: { uuid: guestUuid, description: '' } }, snapshotId)
}

export async function order(made: Made, action: GuestAction, options: OrderOptions = {}): Promise<void> {
  await isDone(made.domain, await submit(made, made.domain.engine, action, options))
}

async function carryOut({ domain }: Made, order: Order, operationId: string): Promise<void> {
  const asked = { operationId, requestedBy: 'test', order }
  await isDone(domain, (await domain.orders.submit(asked)).operation)
}

async function isDone(domain: Domain, { id }: OperationRecord): Promise<void> {
  const { status, error } = await domain.engine.wait(id)
  expect(status, error).to.equal('done')
}

interface OrderOptions {
  start?: boolean
  operationId?: string
}

/**
 * Submits an operation on the guest of the matrix. The name, id and port of this guest are always the same. Power
 * operations do not wait for a shutdown, because BusyBox's init shuts down slowly.
 */
export async function submit(
  { domain, guest }: Made,
  engine: OperationEngine,
  action: GuestAction,
  { start = true, operationId = randomUUID() }: OrderOptions = {},
): Promise<OperationRecord> {
  const orders = new Orders(engine, { ...domain.kinds, ...guestKinds(domain.context, capacity) })
  const isRescued = domain.context.store.find(guestUuid)?.boot.mode === 'rescue'
  const { order, ...asked } = requestOf(guest, action, { operationId, start, isRescued })
  return (await orders.submit({ ...asked, order: order! })).operation
}

function requestOf(
  { spec, templates }: Made['guest'],
  action: GuestAction,
  { operationId, start, isRescued }: Required<OrderOptions> & { isRescued: boolean },
): SubmitOperationRequest {
  const created = createRequest(1, 'matrix', { start, portMappings: [mapping], ...spec })
  const login = { sshAuthMode: 'password', sshPassword: newPassword }
  switch (action) {
    case 'create':
      return createOrder({ ...created, operationId, uuid: guestUuid })
    case 'resetPassword':
      return resetPasswordOrder(guestUuid, { operationId, password: newPassword })
    case 'reinstall':
      return reinstallOrder(guestUuid, { operationId, templateId: templates[1], ...login })
    case 'snapshotRestore':
      return { operationId, requestedBy: 'test', order: { $case: action, value: { uuid: guestUuid, snapshotId } } }
    case 'changeBoot': {
      const value = { uuid: guestUuid, mode: isRescued ? 'disk' : 'rescue', image: '', force: true }
      return { operationId, requestedBy: 'test', order: { $case: action, value } }
    }
    case 'start':
    case 'stop':
    case 'restart':
    case 'delete':
      return powerOrder(action, guestUuid, operationId)
  }
}

const mapping = wireMapping({ containerPort: 22, hostPort: 23_022, description: 'ssh' })
