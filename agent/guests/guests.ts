import { conflict, invalidField } from '../../shared/errors.js'
import { readListeningPorts } from '../network/ports.js'
import type { OperationEngine } from '../operations/engine.js'
import type { OperationRecord } from '../operations/types.js'
import type { GuestContext } from './context.js'
import type { CreateInput } from './definitions.js'
import { checkRoom } from '../storage/room.js'
import type { PoolCapacity } from '../storage/pool.js'
import type { CreateOrder } from './parse-create.js'
import { checkCapacity, type ProcessorsAndMemory } from './capacity.js'
import { checkAllowed } from './policy.js'
import type { GuestRecord } from './record.js'
import { reserveGuest } from './reserve.js'
import type { PowerInput } from './steps.js'

const gib = 1024 ** 3

export interface HostCapacity extends ProcessorsAndMemory {
  /** Of the pool, without a process. */
  readonly readDisk: () => Promise<PoolCapacity>
}

export interface PowerOrder {
  operationId: string
  uuid: string
  requestedBy: string
  force?: boolean
  /** By the agent itself, for what should run. */
  system?: boolean
}

/** Orders of guests: what is promised is reserved and journaled before the answer. */
export class Guests {
  constructor(
    readonly context: GuestContext,
    private readonly engine: OperationEngine,
    private readonly capacity: HostCapacity,
  ) {}

  /**
   * Journals the guest, its addresses and ports, and queues its creation.
   * @returns the operation and the password to tell the owner; empty in key mode
   * @throws {BerthError} `name_conflict`, `port_conflict`, `resource_exhausted`, `invalid_field`,
   * `operation_conflict`
   */
  async create(
    order: CreateOrder,
  ): Promise<{ operation: OperationRecord; record: GuestRecord | undefined; password: string }> {
    this.#checkFits(order)
    const disk = await this.capacity.readDisk()
    const listening = await readListeningPorts([
      ...new Set(order.portMappings.map(({ protocol }) => protocol)),
    ])
    const operation = this.engine.submit({
      id: order.operationId,
      action: 'create',
      guestUuid: order.uuid,
      guestId: order.id,
      guestName: order.name,
      input: { start: order.start } satisfies CreateInput,
      hashOf: { ...order, requestedBy: '', login: this.#hashable(order.login) },
      requestedBy: order.requestedBy,
      // Only a new order needs room: the answer to a repeated one may come when the pool is full.
      reserve: () => {
        checkRoom(disk, order.limits.diskGb * gib)
        reserveGuest(this.context, order, listening)
      },
    })
    const record = this.context.store.find(order.uuid)
    const password = record ? (this.context.openLogin(record).password ?? '') : ''
    return { operation, record, password }
  }

  /** A fast hash of a password would be worth guessing at. */
  #hashable(login: CreateOrder['login']): CreateOrder['login'] {
    return login.kind === 'password'
      ? { ...login, password: this.context.digestSecret(login.password) }
      : login
  }

  start(order: PowerOrder): OperationRecord {
    return this.#power('start', order)
  }

  stop(order: PowerOrder): OperationRecord {
    return this.#power('stop', order)
  }

  restart(order: PowerOrder): OperationRecord {
    return this.#power('restart', order)
  }

  delete(order: PowerOrder): OperationRecord {
    return this.#power('delete', order)
  }

  #power(action: 'start' | 'stop' | 'restart' | 'delete', order: PowerOrder): OperationRecord {
    const input: PowerInput = { force: order.force ?? false, ...(order.system ? { system: true } : {}) }
    const record = this.context.store.find(order.uuid)
    return this.engine.submit({
      id: order.operationId,
      action,
      guestUuid: order.uuid,
      guestId: record?.id ?? 0,
      guestName: record?.name ?? '',
      input,
      requestedBy: order.requestedBy,
      // Only a new order needs the guest: the answer to a repeated one outlives it.
      reserve: () => this.#checkOrderable(this.context.store.get(order.uuid), action),
    })
  }

  #checkOrderable(record: GuestRecord, action: string): void {
    const { uuid, status, statusReason } = record
    if (status === 'deleting' || this.engine.leaving(uuid))
      throw conflict('invalid_state', 'the container is being deleted')
    if (status === 'error' && action !== 'delete')
      throw conflict('invalid_state', `the container is broken, it can only be deleted: ${statusReason}`)
    if (action === 'start' || action === 'restart') checkAllowed(record)
  }

  #checkFits({ templateId, limits }: CreateOrder): void {
    if (!this.context.images.knows(templateId))
      throw invalidField('template_id', `template_id: no template ${templateId}`)
    checkCapacity(limits, this.capacity)
  }
}
