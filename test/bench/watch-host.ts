import { Server, type ServerWritableStream } from '@grpc/grpc-js'
import { randomUUID } from 'node:crypto'
import { encodeGuestBatches } from '../../agent/rpc/guest-batches.js'
import { bind } from '../../agent/rpc/server.js'
import { createServerCredentials } from '../../agent/rpc/tls.js'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'
import { Template } from '../../proto/gen/berth/agent/v1/image.js'
import {
  Operation,
  OperationServiceService,
  type OperationServiceServer,
  type SubmitOperationRequest,
  type SubmitOperationResponse,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { WatchServiceService, type WatchRequest, type WatchResponse } from '../../proto/gen/berth/agent/v1/watch.js'

type Event = NonNullable<WatchResponse['event']>
type Watcher = ServerWritableStream<WatchRequest, WatchResponse>

const templates = ['debian-12', 'ubuntu-24.04', 'alpine-3.20', 'rocky-9']
const capacity = { cpuCores: 4096, ramTotalMb: 8_388_608, diskTotalGb: 1_048_576, natPortsTotal: 40_000 }

/**
 * A simulated host with many guests, as a gateway sees it. It serves a watch with live metrics and changes, and creates
 * guests. It has no journal database and no settings, so that a hundred hosts fit into one process.
 */
export class WatchHost {
  readonly #guests = new Map<string, Guest>()
  readonly #watchers = new Set<Watcher>()
  readonly #epoch = randomUUID()
  #revision = 0
  #nextChanged = 0

  private constructor(private readonly hostId: string) {}

  /** Starts a host with guests named `sim-<id>`. Their ids begin with `firstId`. */
  static async start(options: {
    identityDir: string
    listen: string
    guests: number
    firstId: number
  }): Promise<WatchHost> {
    const tls = createServerCredentials(options.identityDir)
    const host = new WatchHost(tls.identity().hostId)
    for (let id = options.firstId; id < options.firstId + options.guests; id++) host.#set(seedGuest(id))
    const server = new Server({ 'grpc.max_concurrent_streams': 1000 })
    server.addService(WatchServiceService, { watch: (call: Watcher) => host.#watch(call) })
    server.addService(OperationServiceService, host.#operations())
    await bind(server, options.listen, tls)
    return host
  }

  /** Sends metrics of the host, and one change for each of `changes` guests. The next call takes other guests. */
  tick(changes: number): void {
    this.#send(0, { $case: 'metrics', value: sampleMetrics() })
    const uuids = [...this.#guests.keys()]
    for (let n = 0; n < Math.min(changes, uuids.length); n++) {
      const guest = this.#guests.get(uuids[this.#nextChanged++ % uuids.length]!)!
      this.#set({ ...guest, throttled: !guest.throttled })
    }
  }

  #watch(call: Watcher): void {
    const end = (): void => void this.#watchers.delete(call)
    for (const event of ['error', 'close', 'cancelled']) call.on(event, end)
    const send = (revision: number, event: Event): void => write(call, revision, event)
    send(0, { $case: 'reset', value: {} })
    send(0, { $case: 'host', value: this.#describe() })
    for (const id of templates) send(0, { $case: 'template', value: templateOf(id) })
    if (call.request.acceptsGuestBatches)
      for (const value of encodeGuestBatches(this.#guests.values())) send(0, { $case: 'guests', value })
    else for (const value of this.#guests.values()) send(value.revision, { $case: 'guest', value })
    send(0, { $case: 'metrics', value: sampleMetrics() })
    send(this.#revision, { $case: 'synced', value: { epoch: this.#epoch } })
    this.#watchers.add(call)
  }

  #operations(): OperationServiceServer {
    const refuse = (_call: unknown, callback: (error: Error) => void): void => callback(new Error('not simulated'))
    return {
      getOperation: refuse,
      cancelOperation: refuse,
      removeOperation: refuse,
      submitOperation: (call, callback) => callback(null, this.#create(call.request)),
    }
  }

  #create({ operationId, order, requestedBy }: SubmitOperationRequest): SubmitOperationResponse {
    if (order?.$case !== 'create') throw new Error('only creations are simulated')
    const { id, uuid, name, spec } = order.value
    const limits = spec?.limits ? { limits: spec.limits } : {}
    const status = 'creating'
    const guest = this.#set({ ...seedGuest(id), ...limits, uuid, name, status })
    const operation = Operation.fromPartial({
      id: operationId,
      action: 'create',
      requestedBy,
      createdAtMs: Date.now(),
      subject: { kind: 'guest', id: uuid, name, number: id },
      status: 'running',
      revision: ++this.#revision,
    })
    this.#send(this.#revision, { $case: 'operation', value: operation })
    return { operation, guest, revision: this.#revision, sshPassword: 'Simulated1' }
  }

  #set(guest: Guest): Guest {
    const value = { ...guest, revision: ++this.#revision }
    this.#guests.set(value.uuid, value)
    this.#send(value.revision, { $case: 'guest', value })
    return value
  }

  #send(revision: number, event: Event): void {
    for (const watcher of this.#watchers) write(watcher, revision, event)
  }

  #describe(): HostDescription {
    return HostDescription.fromPartial({
      hostId: this.hostId,
      version: '0.1.0',
      hostname: `sim-${this.hostId}`,
      kernel: '6.1.0',
      capacity,
      capabilities: { lxc: true, storage: 'btrfs', cgroupVersion: 2, lxcfs: true },
      bootId: this.#epoch,
      startedAtMs: Date.now(),
      timeZone: 'UTC',
    })
  }
}

function sampleMetrics(): HostMetrics {
  return HostMetrics.fromPartial({
    cpuUsagePct: Math.random() * 100,
    ramTotalMb: 8_388_608,
    ramUsedMb: 2048,
    diskTotalGb: 65_536,
    load1: 0.5,
    load5: 0.4,
    load15: 0.3,
    publicIpv4: '192.0.2.10',
    publicIpv4Interface: 'eth0',
    agentRssBytes: 80_000_000,
    sampledAtMs: Date.now(),
  })
}

function templateOf(id: string): Template {
  return Template.fromPartial({
    id,
    name: id,
    distro: id.split('-')[0]!,
    release: id,
    arch: 'amd64',
    available: true,
    virtualization: 'lxc',
  })
}

const statuses = ['running', 'stopped']

function seedGuest(id: number): Guest {
  const octets = [(id >> 8) & 255, id & 255]
  const hostPort = 20_000 + (id % 40_000)
  const mapping = { containerPort: 22, hostPort, protocol: 'tcp', description: 'SSH' }
  return Guest.fromPartial({
    id,
    uuid: `00000000-0000-4000-8000-${id.toString(16).padStart(12, '0')}`,
    name: `sim-${id}`,
    virtualization: 'lxc',
    templateId: templates[id % templates.length]!,
    limits: {
      vcpuMilli: 500 * (1 + (id % 8)),
      ramMb: 512,
      diskGb: 10,
      networkDownMbps: 100,
      networkUpMbps: 100,
    },
    status: statuses[id % 5 === 0 ? 1 : 0]!,
    ipv4: `10.64.${octets.join('.')}`,
    mac: `02:00:00:00:${octets.map((octet) => octet.toString(16).padStart(2, '0')).join(':')}`,
    portMappings: [mapping],
    sshPort: hostPort,
    hasPassword: true,
    createdAtMs: Date.UTC(2026, 0, 1) + id * 60_000,
  })
}

function write(watcher: Watcher, revision: number, event: Event): void {
  watcher.write({ revision, event, completeRevision: revision })
}
