import { randomUUID } from 'node:crypto'
import { BerthError, conflict, notFound } from '../../shared/errors.js'
import {
  Guest,
  GuestStatus,
  GetGuestUsageResponse,
  Virtualization,
  type PortMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { Operation, OperationStatus } from '../../proto/gen/berth/agent/v1/operation.js'
import { Template } from '../../proto/gen/berth/agent/v1/image.js'
import type {
  AgentClient,
  Fleet,
  FleetView,
  GuestCreation,
  GuestCreationRequest,
  GuestView,
  HostAdmin,
  HostState,
  HostView,
  OperationCalls,
  OperationView,
  TemplateView,
} from '../../gateway/fleet/contract.js'
import { countGuests } from '../../gateway/fleet/guest-status.js'
import { GuestBlocks } from '../../gateway/fleet/lists/guest-blocks.js'
import { GuestTable } from '../../gateway/fleet/lists/guest-table.js'
import { OperationTable } from '../../gateway/fleet/lists/operation-table.js'
import { refuseBlocked, SimulatedSettings, type SimulatedGuests } from './simulated-settings.js'

const capacity = { cpuCores: 8, ramTotalMb: 32_768, diskTotalGb: 500 }

interface SimulatedHost {
  warnings?: readonly string[]
  id: string
  state: HostState
}

/**
 * A fleet in memory for tests of HTTP alone: agents that journal at once and end their operations when told to.
 * Hosts `host-a` and `host-b`, template `debian-12`.
 */
export class SimulatedFleet implements Fleet {
  guestsVersion = 1
  isComplete = true
  readonly #hosts = new Map<string, SimulatedHost>()
  readonly #guests = new Map<string, { hostId: string; guest: Guest }>()
  readonly #operations = new Map<string, OperationView>()
  /** Those that only the agents have. */
  readonly #unlisted = new Set<string>()
  readonly #passwords = new Map<string, string>()
  readonly #settings = new Map<string, SimulatedSettings>()
  #revision = 1
  #nextId = 101
  /** Thrown by every agent call while set. */
  agentFailure: BerthError | undefined

  constructor() {
    for (const id of ['host-a', 'host-b']) {
      this.#hosts.set(id, { id, state: 'online' })
      this.#settings.set(id, new SimulatedSettings(this.#guestsOf(id), capacity))
    }
  }

  /** What one host's agent keeps beside its guests. */
  settingsOf(hostId: string): SimulatedSettings {
    return this.#settings.get(hostId)!
  }

  #guestsOf(hostId: string): SimulatedGuests {
    const found = (uuid: string) => {
      const guest = this.#guests.get(uuid)
      return guest?.hostId === hostId ? guest.guest : undefined
    }
    return {
      list: () => [...this.#guests.values()].filter((one) => one.hostId === hostId).map(({ guest }) => guest),
      find: found,
      change: (uuid, change) => {
        const guest = { ...found(uuid)!, ...change, revision: this.#revision++ }
        this.#guests.set(uuid, { hostId, guest })
        this.guestsVersion++
        return guest
      },
    }
  }

  readonly hosts: HostAdmin = {
    createHost: notSimulated,
    createJoinToken: notSimulated,
    updateHost: notSimulated,
    removeHost: notSimulated,
  }

  readonly view: FleetView = viewOf(this)

  findHost(id: string): HostView | undefined {
    const host = this.#hosts.get(id)
    return host && hostView(host)
  }

  setHostState(id: string, state: HostState): void {
    this.#hosts.set(id, { id, state })
  }

  /** Exactly these. */
  warn(id: string, ...warnings: string[]): void {
    this.#hosts.set(id, { ...this.#hosts.get(id)!, warnings })
    this.guestsVersion++
  }

  removeHosts(): void {
    this.#hosts.clear()
  }

  *guests(): Iterable<GuestView> {
    for (const found of this.#guests.values()) yield this.#viewOf(found)
  }

  findGuest(ref: string): GuestView | undefined {
    const found =
      this.#guests.get(ref) ??
      [...this.#guests.values()].find(({ guest }) => guest.name === ref || String(guest.id) === ref)
    return found && this.#viewOf(found)
  }

  hostViews(): HostView[] {
    return [...this.#hosts.values()].map(hostView)
  }

  operations(): OperationView[] {
    const all = [...this.#operations.values()].toReversed()
    return all.filter(({ operation }) => !this.#unlisted.has(operation.id))
  }

  async findOperation(id: string): Promise<OperationView | undefined> {
    return this.#operations.get(id)
  }

  findListedOperation(id: string): OperationView | undefined {
    return this.#unlisted.has(id) ? undefined : this.#operations.get(id)
  }

  /** The view has no room for it any more. */
  unlistOperation(id: string): void {
    this.#unlisted.add(id)
  }

  templates(): TemplateView[] {
    return [...this.#hosts.keys()].map((hostId) => ({ hostId, template: template() }))
  }

  /** Puts a guest there without any request. */
  addGuest(change: Partial<Guest> = {}, hostId = 'host-a'): Guest {
    const id = change.id ?? this.#nextId++
    const sshPort = this.#findFreePort(hostId, 20_000 + (id % 10_000))
    const guest = Guest.create({
      id,
      uuid: randomUUID(),
      name: `guest-${id}`,
      virtualization: Virtualization.VIRTUALIZATION_LXC,
      templateId: 'debian-12',
      limits: { vcpuMilli: 500, ramMb: 512, diskGb: 10 },
      status: GuestStatus.GUEST_STATUS_RUNNING,
      ipv4: `10.64.${id >> 8}.${id & 255}`,
      portMappings: [mappingToSsh(sshPort)],
      sshPort,
      hasPassword: true,
      createdAtMs: Date.UTC(2026, 10, 21, 10),
      revision: this.#revision++,
      ...change,
    })
    this.#guests.set(guest.uuid, { hostId, guest })
    this.guestsVersion++
    return guest
  }

  /** Others were given ports that nobody chose. */
  #findFreePort(hostId: string, from: number): number {
    const taken = new Set<number>()
    for (const found of this.#guests.values())
      if (found.hostId === hostId)
        for (const { hostPort, hostPortEnd } of found.guest.portMappings)
          for (let port = hostPort; port <= hostPortEnd; port++) taken.add(port)
    let port = from
    while (taken.has(port)) port++
    return port
  }

  async createGuest(request: GuestCreationRequest): Promise<GuestCreation> {
    if (this.agentFailure) throw this.agentFailure
    const done = this.#operations.get(request.operationId)
    if (!done && this.findGuest(request.name)) throw conflict('name_conflict', 'the name is taken')
    const hostId = done?.hostId ?? request.hostId ?? 'host-a'
    const guest = done ? this.#guests.get(done.operation.subject!.id)!.guest : this.#newGuest(request, hostId)
    const operation = done?.operation ?? this.#queue('create', hostId, guest, request)
    const sshPassword = this.#passwords.get(guest.uuid) ?? ''
    return { hostId, response: { operation, guest, revision: this.#revision, sshPassword } }
  }

  agent(hostId: string): AgentClient {
    const host = this.#hosts.get(hostId)
    if (host?.state !== 'online') throw new BerthError('unavailable', 'host_offline', 'the host is away')
    if (this.agentFailure) throw this.agentFailure
    const answer = { guest: undefined, sshPassword: '' }
    const operations: OperationCalls = {
      submitOperation: async ({ order, ...asked }) => {
        if (!order || order.$case === 'create') throw new Error('through the fleet')
        const { guest } = this.#guests.get(order.value.uuid)!
        if (order.$case === 'start' || order.$case === 'restart') refuseBlocked(guest)
        const operation = this.#queue(order.$case, hostId, guest, asked)
        return { operation, revision: this.#revision, ...answer }
      },
      cancelOperation: async ({ id }) => {
        this.endOperation(id, OperationStatus.OPERATION_STATUS_CANCELED)
        return { operation: this.#operations.get(id)?.operation, revision: this.#revision }
      },
      getOperation: async ({ id }) => ({ operation: this.#operations.get(id)?.operation }),
      removeOperation: async ({ id }) => {
        if (!this.#operations.delete(id)) throw notFound('task')
        return { revision: this.#revision }
      },
    }
    return {
      guests: {
        getGuestUsage: async () =>
          GetGuestUsageResponse.create({ cpuUsagePct: 12.5, memoryUsageBytes: 1048576 }),
      },
      operations,
      settings: this.settingsOf(hostId).calls,
      routing: this.settingsOf(hostId).routing.calls,
    }
  }

  async reached(): Promise<void> {
    return Promise.resolve()
  }

  endOperation(id: string, status = OperationStatus.OPERATION_STATUS_DONE): void {
    const { hostId, operation } = this.#operations.get(id)!
    const finishedAtMs = Date.now()
    this.#operations.set(id, { hostId, operation: { ...operation, status, progress: 100, finishedAtMs } })
  }

  setOperationStatus(id: string, status: OperationStatus): void {
    const { hostId, operation } = this.#operations.get(id)!
    this.#operations.set(id, { hostId, operation: { ...operation, status } })
  }

  #viewOf(found: { hostId: string; guest: Guest }): GuestView {
    return { ...found, online: this.#hosts.get(found.hostId)?.state === 'online' }
  }

  #newGuest({ name, spec }: GuestCreationRequest, hostId: string): Guest {
    const guest = this.addGuest(
      {
        name,
        templateId: spec.templateId,
        limits: spec.limits,
        status: GuestStatus.GUEST_STATUS_CREATING,
        ...this.settingsOf(hostId).initial(spec),
        hasPassword: spec.sshPublicKey === '',
      },
      hostId,
    )
    this.#passwords.set(guest.uuid, spec.sshPublicKey === '' ? spec.sshPassword || 'made4Simulation' : '')
    return guest
  }

  #queue(
    action: string,
    hostId: string,
    guest: Guest,
    order: { operationId: string; requestedBy: string },
  ): Operation {
    const operation = Operation.create({
      id: order.operationId,
      action,
      subject: { kind: 'guest', id: guest.uuid, name: guest.name, number: guest.id },
      status: OperationStatus.OPERATION_STATUS_PENDING,
      createdAtMs: Date.now(),
      requestedBy: order.requestedBy,
      revision: this.#revision++,
    })
    if (!this.#operations.has(operation.id)) this.#operations.set(operation.id, { hostId, operation })
    return operation
  }
}

function mappingToSsh(hostPort: number): PortMapping {
  const ports = { hostPort, hostPortEnd: hostPort, containerPort: 22, containerPortEnd: 22 }
  return { ...ports, protocol: 'tcp', hostIp: '', description: 'SSH' }
}

function notSimulated(): Promise<never> {
  return Promise.reject(new Error('not simulated'))
}

function viewOf(fleet: SimulatedFleet): FleetView {
  const operationTable = (): OperationTable => {
    const table = new OperationTable()
    for (const one of fleet.operations()) table.set(one.operation.id, one)
    return table
  }
  return {
    get guestsVersion() {
      return fleet.guestsVersion
    },
    guests: () => fleet.guests(),
    guestsOf: (hostId) => [...fleet.guests()].filter((guest) => guest.hostId === hostId),
    get guestTable() {
      const table = new GuestTable()
      for (const guest of fleet.guests()) table.set(guest.guest.uuid, guest)
      return table
    },
    get guestBlocks() {
      const blocks = new GuestBlocks()
      for (const guest of fleet.guests()) blocks.set(guest)
      return blocks.inOrder()
    },
    countGuests: (hostId) =>
      countGuests([...fleet.guests()].filter((guest) => (hostId ?? guest.hostId) === guest.hostId)),
    findGuest: (ref) => fleet.findGuest(ref),
    findGuestByName: (name) => [...fleet.guests()].find(({ guest }) => guest.name === name),
    operations: () => fleet.operations(),
    get operationTable() {
      return operationTable()
    },
    operationsOf: (uuids) => operationTable().ofGuests(uuids),
    findOperation: (id) => fleet.findListedOperation(id),
    templates: () => fleet.templates(),
    hosts: () => fleet.hostViews(),
    countHosts: () => ({
      total: fleet.hostViews().length,
      online: fleet.hostViews().filter(({ state }) => state === 'online').length,
    }),
    findHost: (id) => fleet.findHost(id),
  }
}

function template(): Template {
  return Template.create({
    id: 'debian-12',
    name: 'Debian 12',
    distro: 'debian',
    release: 'bookworm',
    arch: 'amd64',
    description: 'Debian 12 with systemd and SSH',
    virtualization: Virtualization.VIRTUALIZATION_LXC,
    available: true,
    sizeBytes: 300_000_000,
  })
}

function hostView({ id, state, warnings = [] }: SimulatedHost): HostView {
  return {
    id,
    name: id,
    address: '127.0.0.1:7443',
    state,
    draining: false,
    createdAtMs: Date.UTC(2026, 10, 1),
    lastSeenMs: Date.now(),
    certificateNotAfterMs: Date.UTC(2027, 10, 1),
    warnings,
    description: HostDescription.create({
      hostId: id,
      hostname: id,
      kernel: '6.1.0',
      capacity,
    }),
    metrics: HostMetrics.create({
      ...{ cpuUsagePct: 10, ramTotalMb: 32_768, ramUsedMb: 1024, diskTotalGb: 500, diskUsedGb: 2 },
      diskUsedBytes: 1_500_000_000,
    }),
  }
}
