import { randomUUID } from 'node:crypto'
import { BerthError, conflict, notFound } from '../../shared/errors.js'
import {
  changePortMapping,
  checkFirewall,
  checkPortMapping,
  checkTrafficLimit,
} from '../../shared/network-rules.js'
import {
  GuestLimits,
  TrafficAction,
  TrafficLimit,
  TrafficMode,
  type Guest,
  type GuestSpec,
  type PortMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { Firewall } from '../../proto/gen/berth/agent/v1/network.js'
import type { SettingsCalls } from '../../gateway/fleet/contract.js'
import { SimulatedRouting } from './simulated-routing.js'

/** Whoever holds the guests of one host. */
export interface SimulatedGuests {
  list(): Iterable<Guest>
  find(uuid: string): Guest | undefined
  /** With a new revision. */
  change(uuid: string, change: Partial<Guest>): Guest
}

const firstPicked = 30_000
const bytesPerGb = 1e9

/** An agent's settings with the agent's rules, in memory: what is set is kept, conflicts and limits are refused. */
export class SimulatedSettings {
  readonly routing = new SimulatedRouting(() => this.guests.list())
  /** Of all guests' traffic. */
  period = { periodStart: '2026-11-01', resetsAtMs: Date.UTC(2026, 11, 1), utcOffsetMinutes: 0 }
  readonly #firewalls = new Map<string, Firewall>()
  readonly #used = new Map<string, { rxBytes: number; txBytes: number }>()

  /** Thrown once, after a mapping was added: the caller does not hear of it. */
  lostAnswer: BerthError | undefined
  readonly #done = new Set<string>()

  constructor(private readonly guests: SimulatedGuests) {}

  readonly calls: SettingsCalls = {
    addPortMapping: async (request) => {
      const { uuid, portMappings } = this.#get(request)
      const repeated = request.operationId !== '' && this.#done.has(request.operationId)
      const added = repeated ? [] : [this.#place(request.mapping!)]
      this.#done.add(request.operationId)
      const answer = mappingsOf(this.guests.change(uuid, { portMappings: [...portMappings, ...added] }))
      const lost = this.lostAnswer
      this.lostAnswer = undefined
      if (lost) throw lost
      return answer
    },
    updatePortMapping: async (request) => {
      const { uuid, portMappings } = this.#get(request)
      const old = mappingAt(portMappings, request.index)
      const changed = this.#place(changePortMapping(old, request.change ?? {}), old)
      return mappingsOf(this.guests.change(uuid, { portMappings: portMappings.with(request.index, changed) }))
    },
    removePortMapping: async (request) => {
      const { uuid, portMappings } = this.#get(request)
      mappingAt(portMappings, request.index)
      return mappingsOf(this.guests.change(uuid, { portMappings: portMappings.toSpliced(request.index, 1) }))
    },
    findFreePorts: async ({ protocol, hostIp, count }) => {
      const ports: number[] = []
      for (let from = firstPicked; ports.length < count; from = ports.at(-1)! + 1)
        ports.push(this.#pick({ protocol, hostIp, length: 1 }, from))
      return { ports }
    },
    getFirewall: async ({ uuid }) => {
      const { revision } = this.#get({ uuid, ifRevision: 0 })
      return { firewall: this.#firewalls.get(uuid) ?? noFirewall, revision }
    },
    setFirewall: async (request) => {
      const { uuid } = this.#get(request)
      const known = new Set(this.#firewalls.get(uuid)?.rules.map(({ id }) => id))
      const checked = checkFirewall(request.firewall ?? noFirewall)
      const rules = checked.rules.map((rule) => ({
        ...rule,
        id: known.has(rule.id) ? rule.id : randomUUID(),
      }))
      const firewall = { ...checked, rules }
      this.#firewalls.set(uuid, firewall)
      return { firewall, revision: this.guests.change(uuid, {}).revision }
    },
    setLimits: async (request) => {
      const { uuid: _uuid, ifRevision: _revision, ...wanted } = request
      const guest = this.#get(request)
      const limits = { ...GuestLimits.create(guest.limits), ...sent(wanted) }
      return { limits, revision: this.guests.change(guest.uuid, { limits }).revision }
    },
    setTrafficLimit: async (request) => {
      const { uuid: _uuid, ifRevision: _revision, ...wanted } = request
      const guest = this.#get(request)
      checkTrafficLimit(wanted)
      const traffic = { ...TrafficLimit.create(guest.traffic), ...sent(wanted) }
      return { traffic, revision: this.#judge(guest.uuid, { traffic }).revision }
    },
    resetTraffic: async (request) => {
      const { uuid } = this.#get(request)
      this.#used.delete(uuid)
      return { revision: this.#judge(uuid).revision }
    },
    getTraffic: async ({ uuid }) => {
      const { traffic } = this.#get({ uuid, ifRevision: 0 })
      const { rxBytes, txBytes } = this.#usedBy(uuid)
      return { limit: TrafficLimit.create(traffic), rxBytes, txBytes, ...this.period }
    },
    setExpiry: async (request) => {
      const { uuid } = this.#get(request)
      return { revision: this.#judge(uuid, { expiresAtMs: request.expiresAtMs }).revision }
    },
    assignIpv6: async (request) => {
      const guest = this.#get(request)
      const asked = request.count + request.addresses.length > 0 || guest.ipv6Addresses.length > 0
      const count = asked ? request.count : 1
      const chosen = this.routing.allocateIpv6({ count, addresses: request.addresses })
      const ipv6Addresses = [...guest.ipv6Addresses, ...chosen]
      const { revision } = this.guests.change(guest.uuid, { ipv6Addresses, ipv6: ipv6Addresses[0] ?? '' })
      return { ipv6Addresses, revision }
    },
  }

  /** What a new guest gets of what its order asks for. @throws {BerthError} as an agent */
  initial(spec: GuestSpec): Partial<Guest> {
    const portMappings: PortMapping[] = []
    for (const wanted of spec.portMappings) portMappings.push(this.#place(wanted, undefined, portMappings))
    const ssh = portMappings.find(({ containerPort, protocol }) => containerPort === 22 && protocol === 'tcp')
    const publicIpv4s = this.routing.allocateIpv4({ count: spec.ipv4Count, addresses: spec.publicIpv4s })
    const ipv6Addresses = this.routing.allocateIpv6({ count: spec.ipv6Count, addresses: spec.ipv6Addresses })
    const { expiresAtMs, traffic } = spec
    return {
      ...{
        portMappings,
        sshPort: ssh?.hostPort ?? 0,
        publicIpv4s,
        ipv6Addresses,
        ipv6: ipv6Addresses[0] ?? '',
      },
      ...{ expiresAtMs, traffic },
    }
  }

  /** As if the guest had sent and received. */
  addTraffic(uuid: string, bytes: { rxBytes: number; txBytes: number }): void {
    const used = this.#usedBy(uuid)
    this.#used.set(uuid, { rxBytes: used.rxBytes + bytes.rxBytes, txBytes: used.txBytes + bytes.txBytes })
    this.#judge(uuid)
  }

  #get({ uuid, ifRevision }: { uuid: string; ifRevision: number }): Guest {
    const guest = this.guests.find(uuid)
    if (!guest) throw notFound('container')
    if (ifRevision !== 0 && guest.revision !== ifRevision)
      throw conflict('precondition_failed', 'the container has changed meanwhile')
    return guest
  }

  #usedBy(uuid: string): { rxBytes: number; txBytes: number } {
    return this.#used.get(uuid) ?? { rxBytes: 0, txBytes: 0 }
  }

  #judge(uuid: string, change: Partial<Guest> = {}): Guest {
    const guest = { ...this.#get({ uuid, ifRevision: 0 }), ...change }
    const over = isOverQuota(guest.traffic, this.#usedBy(uuid))
    const reasons = [
      ...(guest.expiresAtMs !== 0 && guest.expiresAtMs <= Date.now() ? ['expired'] : []),
      ...(over && (guest.traffic?.action ?? 0) <= TrafficAction.TRAFFIC_ACTION_STOP
        ? ['traffic quota used up']
        : []),
    ]
    return this.guests.change(uuid, {
      ...change,
      policyBlocked: reasons.length > 0,
      policyReason: reasons.join(', '),
      throttled: over && guest.traffic?.action === TrafficAction.TRAFFIC_ACTION_THROTTLE,
    })
  }

  /** With its host port picked, unless someone has it. @param but not in its own way */
  #place(wanted: PortMapping, but?: PortMapping, others: readonly PortMapping[] = []): PortMapping {
    const { length, ...mapping } = checkPortMapping(wanted)
    const hostPort = mapping.hostPort || this.#pick({ ...mapping, length }, firstPicked, others)
    const containerPort = mapping.containerPort || hostPort
    const span = { ...mapping, hostPort, length }
    if (!this.#isInRange(span)) throw conflict('port_conflict', `port ${hostPort} is not of the host's range`)
    if (!this.#isFree(span, but, others)) throw conflict('port_conflict', `port ${hostPort} is taken`)
    const ends = { hostPortEnd: hostPort + length - 1, containerPortEnd: containerPort + length - 1 }
    return { ...mapping, hostPort, containerPort, ...ends }
  }

  #pick(wanted: Omit<Span, 'hostPort'>, from: number, others: readonly PortMapping[] = []): number {
    for (let hostPort = from; this.#isInRange({ ...wanted, hostPort }); hostPort++)
      if (this.#isFree({ ...wanted, hostPort }, undefined, others)) return hostPort
    throw new BerthError('exhausted', 'resource_exhausted', 'no port is left')
  }

  #isInRange({ hostPort, length }: Span): boolean {
    const { start, end } = this.routing.natPorts
    return hostPort >= start && hostPort + length - 1 <= end
  }

  #isFree(span: Span, but: PortMapping | undefined, others: readonly PortMapping[]): boolean {
    const taken = [...others, ...[...this.guests.list()].flatMap((guest) => guest.portMappings)]
    return taken.every((mapping) => mapping === but || !overlaps(span, mapping))
  }
}

interface Span {
  readonly protocol: string
  readonly hostIp: string
  readonly hostPort: number
  readonly length: number
}

function overlaps(span: Span, taken: PortMapping): boolean {
  const address = span.hostIp === '' || taken.hostIp === '' || span.hostIp === taken.hostIp
  const last = Math.max(taken.hostPort, taken.hostPortEnd)
  return (
    address &&
    span.protocol === taken.protocol &&
    span.hostPort <= last &&
    taken.hostPort <= span.hostPort + span.length - 1
  )
}

const noFirewall = Firewall.create({ defaultAction: 'ACCEPT' })

function mappingAt(mappings: readonly PortMapping[], index: number): PortMapping {
  const mapping = mappings[index]
  if (!mapping) throw notFound('port mapping')
  return mapping
}

function mappingsOf({ portMappings: mappings, revision }: Guest) {
  return { mappings, revision }
}

function sent<Fields extends object>(fields: Fields): Sent<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Sent<Fields>
}

type Sent<Fields> = { [Field in keyof Fields]: Exclude<Fields[Field], undefined> }

function isOverQuota(limit: TrafficLimit | undefined, used: { rxBytes: number; txBytes: number }): boolean {
  if (!limit) return false
  const over = (bytes: number, gb: number): boolean => gb > 0 && bytes >= gb * bytesPerGb
  if (limit.mode === TrafficMode.TRAFFIC_MODE_SPLIT)
    return over(used.rxBytes, limit.inGb) || over(used.txBytes, limit.outGb)
  return over(used.rxBytes + used.txBytes, limit.monthlyGb)
}

/** As an agent refuses a start. @throws {BerthError} `policy_blocked` */
export function refuseBlocked({ policyBlocked, policyReason }: Guest): void {
  if (policyBlocked)
    throw new BerthError('forbidden', 'policy_blocked', `the container is blocked: ${policyReason}`)
}
