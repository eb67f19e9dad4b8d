import { randomUUID } from 'node:crypto'
import { openDatabase } from '../../agent/state/database.js'
import { Changes } from '../../agent/state/changes.js'
import type { WatchEvent, WatchKind } from '../../agent/rpc/watch-kinds.js'
import type { WatchSource } from '../../agent/rpc/watch-service.js'
import {
  Guest,
  GuestSpec,
  GuestStatus,
  PortMapping,
  Virtualization,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { Template } from '../../proto/gen/berth/agent/v1/image.js'
import { Operation, OperationStatus, type CreateOrder } from '../../proto/gen/berth/agent/v1/operation.js'
import { checkPortMapping } from '../../shared/port-mapping-rules.js'
import { SimulatedSettings } from './simulated-settings.js'

const capacity = {
  cpuCores: 64,
  ramTotalMb: 4_194_304,
  diskTotalGb: 65_536,
  natPortsTotal: 40_000,
  ipv4Total: 65_533,
}

/**
 * The state of a host without a host: guests and operations in memory, numbered and watched by the agent's own
 * code. It outlives the server in front of it, as a journal does.
 */
export class SimulatedHost {
  readonly changes = new Changes(openDatabase(':memory:'))
  readonly guests = new Map<string, Guest>()
  readonly operations = new Map<string, Operation>()
  readonly templates = new Map<string, Template>()
  readonly settings = new SimulatedSettings(
    {
      list: () => this.guests.values(),
      find: (uuid) => this.guests.get(uuid),
      change: (uuid, change) => this.setGuest({ ...change, uuid }),
    },
    capacity,
  )
  description: HostDescription
  metrics = HostMetrics.create()
  #metricsListeners = new Set<(metrics: HostMetrics) => void>()

  constructor(readonly hostId: string) {
    this.description = HostDescription.fromPartial({
      hostId,
      version: '0.1.0',
      hostname: `sim-${hostId}`,
      kernel: '6.1.0',
      bootId: randomUUID(),
      startedAtMs: Date.now(),
      capabilities: { lxc: true, kvm: false, storage: 'btrfs', cgroupVersion: 2, lxcfs: true },
      capacity,
      timeZone: 'UTC',
    })
    const template = {
      id: 'debian-12',
      name: 'Debian 12',
      distro: 'debian',
      release: 'bookworm',
      arch: 'amd64',
    }
    this.setTemplate({ ...template, virtualization: Virtualization.VIRTUALIZATION_LXC, available: true })
  }

  /** Adds `count` running guests: `sim-<id>`, ids from `firstId`. */
  seed(count: number, firstId = 1): void {
    this.changes.transaction(() => {
      for (let id = firstId; id < firstId + count; id++) this.setGuest(seedGuest(id))
    })
  }

  setGuest(guest: Parameters<typeof Guest.fromPartial>[0] & { uuid: string }): Guest {
    return this.changes.transaction(() => {
      const revision = this.changes.record('guest', guest.uuid)
      const next = Guest.fromPartial({ ...this.guests.get(guest.uuid), ...guest, revision })
      this.guests.set(next.uuid, next)
      return next
    })
  }

  deleteGuest(uuid: string): void {
    if (!this.guests.delete(uuid)) return
    this.changes.transaction(() => this.changes.record('guest', uuid, true))
  }

  setOperation(operation: Parameters<typeof Operation.fromPartial>[0] & { id: string }): Operation {
    return this.changes.transaction(() => {
      const revision = this.changes.record('operation', operation.id)
      const next = Operation.fromPartial({ ...this.operations.get(operation.id), ...operation, revision })
      this.operations.set(next.id, next)
      return next
    })
  }

  deleteOperation(id: string): void {
    if (!this.operations.delete(id)) return
    this.changes.transaction(() => this.changes.record('operation', id, true))
  }

  setTemplate(template: Parameters<typeof Template.fromPartial>[0] & { id: string }): void {
    this.changes.transaction(() => {
      const revision = this.changes.record('template', template.id)
      this.templates.set(template.id, Template.fromPartial({ ...template, revision }))
    })
  }

  sample(): void {
    this.metrics = HostMetrics.fromPartial({
      ...{ cpuUsagePct: 5, ramTotalMb: 4_194_304, ramUsedMb: 2048, diskTotalGb: 65_536, diskUsedGb: 100 },
      ...{ load1: 0.5, load5: 0.4, load15: 0.3, publicIpv4: '192.0.2.10', publicIpv4Interface: 'eth0' },
      ...{ agentRssBytes: 80_000_000, sampledAtMs: Date.now() },
    })
    for (const listener of this.#metricsListeners) listener(this.metrics)
  }

  get watchSource(): WatchSource {
    const latest = (): HostMetrics => this.metrics
    return {
      changes: this.changes,
      kinds: {
        template: kindOf(this.templates, (value) => ({ $case: 'template', value })),
        guest: kindOf(this.guests, (value) => ({ $case: 'guest', value })),
        operation: kindOf(this.operations, (value) => ({ $case: 'operation', value })),
      },
      describe: () => this.description,
      failed: (error) => {
        throw error
      },
      metrics: {
        get latest() {
          return latest()
        },
        listen: (listener) => {
          this.#metricsListeners.add(listener)
          return () => this.#metricsListeners.delete(listener)
        },
      },
    }
  }
}

function kindOf<Entity extends { revision: number }>(
  entities: ReadonlyMap<string, Entity>,
  eventOf: (entity: Entity) => WatchEvent,
): WatchKind {
  const seen = (entity: Entity) => ({ revision: entity.revision, event: eventOf(entity) })
  return {
    list: (since) => [...entities.values()].filter(({ revision }) => revision > since).map(seen),
    find: (key) => {
      const entity = entities.get(key)
      return entity && seen(entity)
    },
  }
}

/** What an agent would report of a guest it was told to create. */
export function guestOf({ id, uuid, name, spec: given }: CreateOrder): Guest {
  const spec = given ?? GuestSpec.create()
  const ssh = { ...PortMapping.create({ protocol: 'tcp', description: 'SSH' }), containerPort: 22 }
  const wanted = spec.portMappings.length > 0 || !spec.assignNat ? spec.portMappings : [ssh]
  const portMappings = wanted.map((mapping, index) => portsOf(mapping, 20_000 + ((id * 8 + index) % 40_000)))
  const octets = [(id >> 8) & 255, id & 255]
  return Guest.fromPartial({
    ...{ id, uuid, name, portMappings, sshPort: portMappings[0]?.hostPort ?? 0 },
    ...{ virtualization: spec.virtualization, templateId: spec.templateId },
    ...(spec.limits ? { limits: spec.limits } : {}),
    status: GuestStatus.GUEST_STATUS_CREATING,
    ipv4: `10.64.${octets.join('.')}`,
    mac: `02:00:00:00:${octets.map((octet) => octet.toString(16).padStart(2, '0')).join(':')}`,
    hasPassword: true,
    createdAtMs: Date.now(),
    expiresAtMs: spec.expiresAtMs,
    ...(spec.traffic ? { traffic: spec.traffic } : {}),
  })
}

/** @param picked where none is asked for */
function portsOf(wanted: PortMapping, picked: number): PortMapping {
  const { length, ...mapping } = checkPortMapping(wanted)
  const hostPort = mapping.hostPort || picked
  const containerPort = mapping.containerPort || hostPort
  const ends = { hostPortEnd: hostPort + length - 1, containerPortEnd: containerPort + length - 1 }
  return { ...mapping, hostPort, containerPort, ...ends }
}

function seedGuest(id: number): Guest {
  const uuid = `00000000-0000-4000-8000-${id.toString(16).padStart(12, '0')}`
  const limits = {
    ...{ vcpuMilli: 1000, ramMb: 512, diskGb: 10, networkDownMbps: 100, networkUpMbps: 100 },
    ...{ ioReadMbps: 0, ioWriteMbps: 0 },
  }
  const spec = {
    ...{
      virtualization: Virtualization.VIRTUALIZATION_LXC,
      templateId: 'debian-12',
      limits,
      assignNat: true,
    },
    ...{ portMappings: [], sshAuthMode: 1, sshPassword: '', sshPublicKey: '', start: true },
    ...{ ipv4Count: 0, publicIpv4s: [], ipv6Count: 0, ipv6Addresses: [], expiresAtMs: 0, traffic: undefined },
  }
  const request = { id, uuid, name: `sim-${id}`, spec }
  return Guest.fromPartial({ ...guestOf(request), status: GuestStatus.GUEST_STATUS_RUNNING })
}

export function runningOperation(fields: {
  id: string
  action: string
  guest: Guest
  user: string
}): Operation {
  const { id, action, guest, user } = fields
  return Operation.fromPartial({
    ...{ id, action, requestedBy: user },
    subject: { kind: 'guest', id: guest.uuid, name: guest.name, number: guest.id },
    status: OperationStatus.OPERATION_STATUS_PENDING,
    createdAtMs: Date.now(),
  })
}
