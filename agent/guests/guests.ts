import { randomInt } from 'node:crypto'
import { BerthError, conflict, invalidField } from '../../shared/errors.js'
import { allocateIpv4, allocatePorts, checkPort, macOf, readListeningPorts } from '../network/allocation.js'
import type { OperationEngine } from '../operations/engine.js'
import type { OperationRecord } from '../operations/types.js'
import type { Login } from '../drivers/contract.js'
import type { GuestContext } from './context.js'
import type { CreateInput } from './definitions.js'
import { checkRoom } from '../storage/room.js'
import type { PoolCapacity } from '../storage/pool.js'
import type { CreateOrder } from './parse-create.js'
import type { GuestRecord, PortMapping } from './record.js'
import type { PowerInput } from './steps.js'

const gib = 1024 ** 3

export interface HostCapacity {
  readonly cpuCores: number
  readonly ramTotalMb: number
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
    const listening = order.portMappings.length > 0 ? await readListeningPorts() : new Set<string>()
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
        this.#reserve(order, listening)
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

  #checkOrderable({ uuid, status, statusReason }: GuestRecord, action: string): void {
    if (status === 'deleting' || this.engine.leaving(uuid))
      throw conflict('invalid_state', 'the container is being deleted')
    if (status === 'error' && action !== 'delete')
      throw conflict('invalid_state', `the container is broken, it can only be deleted: ${statusReason}`)
  }

  #checkFits({ templateId, limits }: CreateOrder): void {
    if (!this.context.images.knows(templateId))
      throw invalidField('template_id', `template_id: no template ${templateId}`)
    const tooMany = limits.vcpuMilli > this.capacity.cpuCores * 1000
    if (tooMany || limits.ramMb > this.capacity.ramTotalMb)
      throw new BerthError(
        'exhausted',
        'resource_exhausted',
        `the host has ${this.capacity.cpuCores} processors and ${this.capacity.ramTotalMb} MB of memory`,
        { field: tooMany ? 'vcpu' : 'ram_mb' },
      )
  }

  #reserve(order: CreateOrder, listening: ReadonlySet<string>): void {
    const { store, config, now, sealLogin } = this.context
    const { db } = store.changes
    const idmapSlot = store.freeIdmapSlot(config.lxc.idmap_slots)
    if (idmapSlot === undefined)
      throw new BerthError('exhausted', 'resource_exhausted', 'no user id range is left')
    const ipv4 = allocateIpv4(db, config.network.subnet)
    const login = loginOf(order)
    store.insert({
      uuid: order.uuid,
      id: order.id,
      name: order.name,
      spec: { virtualization: order.virtualization, templateId: order.templateId, limits: order.limits },
      status: 'creating',
      wanted: order.start ? 'running' : 'stopped',
      idmapSlot,
      ipv4,
      mac: macOf(ipv4),
      login: sealLogin(order.uuid, login),
      hasPassword: login.password !== undefined,
      createdAtMs: now(),
      portMappings: this.#reservePorts(order, listening),
    })
  }

  #reservePorts(order: CreateOrder, listening: ReadonlySet<string>): PortMapping[] {
    const { db } = this.context.store.changes
    const range = this.context.config.network.nat_ports
    const explicit = order.portMappings.filter((m) => m.hostPort !== 0)
    for (const { protocol, hostPort } of explicit) checkPort(db, { range, protocol, hostPort, listening })
    const taken = new Set(explicit.map((m) => `${m.protocol}:${m.hostPort}`))
    if (taken.size < explicit.length) throw conflict('port_conflict', 'a host port is asked for twice')
    const picked = pickPorts(order.portMappings, (protocol, count) =>
      allocatePorts(db, { range, protocol, count, taken: new Set([...taken, ...listening]) }),
    )
    return picked.map((m) => ({ ...m, containerPort: m.containerPort || m.hostPort }))
  }
}

/** Fills in host ports of 0; one allocation for each protocol. */
function pickPorts(
  mappings: readonly PortMapping[],
  allocate: (protocol: 'tcp' | 'udp', count: number) => number[],
): PortMapping[] {
  const wanted = (protocol: 'tcp' | 'udp'): number =>
    mappings.filter((m) => m.protocol === protocol && m.hostPort === 0).length
  const free = { tcp: allocate('tcp', wanted('tcp')), udp: allocate('udp', wanted('udp')) }
  return mappings.map((m) => ({ ...m, hostPort: m.hostPort || (free[m.protocol].pop() ?? 0) }))
}

function loginOf(order: CreateOrder): Login {
  switch (order.login.kind) {
    case 'auto':
      return { password: makePassword() }
    case 'password':
      return { password: order.login.password }
    case 'key':
      return { publicKey: order.login.publicKey }
  }
}

/** 16 characters without look-alikes, about 92 bits, always with a letter and a digit. */
function makePassword(): string {
  const letters = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ'
  const digits = '23456789'
  const pick = (from: string): string => from.charAt(randomInt(from.length))
  const password = Array.from({ length: 16 }, () => pick(letters + digits)).join('')
  return /[a-z]/i.test(password) && /\d/.test(password) ? password : makePassword()
}
