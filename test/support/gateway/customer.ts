import type { ServiceError } from '@grpc/grpc-js'
import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Guest, GuestSpec, PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import {
  FirewallRule,
  LimitsChange,
  PortMappingChange,
  type ChangeSettingResponse,
  type Firewall,
  type GuestSettingsServiceClient,
} from '../../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceClient, SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import {
  callUntilAnswered,
  createOrder,
  createRequest,
  powerOrder,
  settingRequest,
  wireMapping,
  type WireChange,
} from '../host/agent-calls.js'

/** Settings of a guest that the agent has acknowledged. Undefined: the outcome of the last change is unknown. */
export interface AcknowledgedSettings {
  portMappings?: Guest['portMappings'] | undefined
  limits?: Guest['limits']
  ipv6Addresses?: Guest['ipv6Addresses'] | undefined
  firewall?: Firewall | undefined
}

export interface CustomerParts {
  readonly orders: OperationServiceClient
  readonly settings: GuestSettingsServiceClient
  /** Number of the customer. It is part of the names of its guests. */
  readonly slot: number
  /** Fields of the guests that the customer creates. */
  readonly spec?: Partial<GuestSpec>
  readonly nextId: () => number
  readonly stopped: () => boolean
}

/** Sends random requests for its guest until `stopped` returns true. Remembers the acknowledged settings. */
export class Customer {
  /** Ids of the operations that the agent accepted. */
  readonly operations: string[] = []
  /** Acknowledged settings of the present guest. Earlier guests are not included, because they may be deleted. */
  acknowledged: AcknowledgedSettings = {}
  /** Number of setting requests that were answered or refused. */
  settingsAnswered = 0
  uuid: string | undefined

  constructor(private readonly parts: CustomerParts) {}

  async run(): Promise<void> {
    while (!this.parts.stopped()) {
      try {
        await this.#order()
      } catch {
        this.#leave() // the guest was deleted or is being deleted
      }
      await delay(randomInt(5, 120))
    }
  }

  #leave(): void {
    this.uuid = undefined
    this.acknowledged = {}
  }

  #order(): Promise<void> {
    if (this.uuid === undefined) return this.#create()
    return randomInt(3) > 0 ? this.#set(this.uuid) : this.#power(this.uuid)
  }

  async #create(): Promise<void> {
    const { slot, nextId, spec } = this.parts
    const id = nextId()
    const request = createRequest(id, `busy-${slot}-${id}`, spec)
    await this.#submit(createOrder(request))
    this.uuid = request.uuid
  }

  async #power(uuid: string): Promise<void> {
    const actions = ['start', 'stop', 'restart', 'delete'] as const
    const action = actions[randomInt(actions.length)]!
    await this.#submit(powerOrder(action, uuid))
    if (action === 'delete') this.#leave()
  }

  async #submit(request: SubmitOperationRequest): Promise<void> {
    const { orders, stopped } = this.parts
    const { operation } = await callUntilAnswered(orders.submitOperation.bind(orders), request, stopped)
    this.operations.push(operation!.id)
  }

  /** Changes a random setting. A refusal changes nothing. A request whose answer is lost is repeated. */
  async #set(uuid: string): Promise<void> {
    const kinds = [() => this.#setPorts(uuid), () => this.#setFirewall(uuid), () => this.#setLimits(uuid)]
    try {
      await [...kinds, () => this.#assignIpv6(uuid)][randomInt(kinds.length + 1)]!()
    } catch (error) {
      const [code] = (error as ServiceError).metadata.get('berth-code')
      if (!harmless.includes(String(code))) throw error
    }
    this.settingsAnswered++
  }

  async #setPorts(uuid: string): Promise<void> {
    const known = this.acknowledged.portMappings
    this.acknowledged.portMappings = undefined
    const containerPort = randomInt(1, 5) * 1000
    const kind = randomInt(known && known.length > 2 ? 2 : 4)
    const answer = await this.#change(uuid, changeOfPorts(kind, containerPort))
    this.acknowledged.portMappings = answer.guest?.portMappings
  }

  async #setFirewall(uuid: string): Promise<void> {
    const rules = Array.from({ length: randomInt(4) }, () => randomRule())
    const value = { enabled: randomInt(3) > 0, defaultAction: pick('ACCEPT', 'DROP'), rules }
    this.acknowledged.firewall = (await this.#change(uuid, { $case: 'firewall', value })).firewall
  }

  async #setLimits(uuid: string): Promise<void> {
    const value = LimitsChange.fromPartial({
      ramMb: pick(96, 128, 256),
      vcpuMilli: pick(500, 1000, 1500),
      networkDownMbps: pick(0, 30, 50),
      networkUpMbps: pick(0, 20, 40),
      ioReadMbps: pick(0, 5),
    })
    this.acknowledged.limits = (await this.#change(uuid, { $case: 'limits', value })).guest?.limits
  }

  async #assignIpv6(uuid: string): Promise<void> {
    const value = { count: randomInt(2), addresses: [] }
    const { guest } = await this.#change(uuid, { $case: 'assignIpv6', value })
    this.acknowledged.ipv6Addresses = guest?.ipv6Addresses
  }

  /** Repeats a change until it is answered. The agent executes it only once, because the operation id is the same. */
  #change(uuid: string, change: WireChange): Promise<ChangeSettingResponse> {
    const { settings, stopped } = this.parts
    const request = settingRequest(change, { uuid, operationId: randomUUID() })
    return callUntilAnswered(settings.changeSetting.bind(settings), request, stopped)
  }
}

function changeOfPorts(kind: number, containerPort: number): WireChange {
  if (kind === 0) return { $case: 'removePortMapping', value: 0 }
  if (kind === 1) {
    const change = PortMappingChange.fromPartial({ containerPort, containerPortEnd: containerPort })
    return { $case: 'updatePortMapping', value: { index: 0, change } }
  }
  return { $case: 'addPortMapping', value: kind === 2 ? randomRange() : wireMapping({ containerPort }) }
}

/** Errors that random changes may get. `not_found` means that the mapping or the guest does not exist. */
const harmless = ['not_found', 'resource_exhausted', 'port_conflict', 'task_running', 'memory_in_use']

/** Makes a random range of UDP ports. The agent chooses the host ports. */
function randomRange(): PortMapping {
  const containerPort = pick(1000, 31_000) + randomInt(800) * 10
  return wireMapping({ containerPort, containerPortEnd: containerPort + randomInt(1, 9), protocol: 'udp' })
}

function randomRule(): FirewallRule {
  return FirewallRule.create({
    direction: pick('in', 'out'),
    protocol: 'tcp',
    action: pick('ACCEPT', 'DROP'),
    network: 'ipv4',
    port: pick('22', '80', '80,443'),
  })
}

function pick<Value>(...values: readonly Value[]): Value {
  return values[randomInt(values.length)]!
}
