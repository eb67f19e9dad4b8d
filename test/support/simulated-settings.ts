import { randomUUID } from 'node:crypto'
import { PortHolds } from '../../agent/guests/port-holds.js'
import { checkCapacity, checkCapacityChange, type ProcessorsAndMemory } from '../../agent/guests/capacity.js'
import { checkLimits } from '../../agent/guests/limits.js'
import { checkHostIp, openChoice, reserveMappings, type HostAddresses } from '../../agent/guests/mappings.js'
import { parseTime } from '../../agent/guests/settings/parse.js'
import { BerthError, conflict, notFound } from '../../shared/errors.js'
import { limits as ranges } from '../../shared/guest-rules.js'
import { checkFirewall } from '../../shared/firewall-rules.js'
import { checkTrafficLimit, networkLimits } from '../../shared/network-limits.js'
import { changePortMapping, checkPortMapping, type WantedMapping } from '../../shared/port-mapping-rules.js'
import {
  GuestLimits,
  GuestStatus,
  TrafficAction,
  TrafficLimit,
  TrafficMode,
  type Guest,
  type GuestSpec,
  type PortMapping,
} from '../../proto/gen/berth/agent/v1/guest.js'
import { Firewall } from '../../proto/gen/berth/agent/v1/network.js'
import type { SettingsCalls } from '../../gateway/fleet/contract.js'
import { SimulatedJournal } from './simulated-journal.js'
import { simulatedAddresses, simulatedConfig, SimulatedRouting } from './simulated-routing.js'

/** Whoever holds the guests of one host. */
export interface SimulatedGuests {
  list(): Iterable<Guest>
  find(uuid: string): Guest | undefined
  /** With a new revision. */
  change(uuid: string, change: Partial<Guest>): Guest
}

const bytesPerGb = 1e9
const hostAddresses: HostAddresses = (family) => simulatedAddresses[family]

/** An agent's settings in memory, refused by the agent's own rules. */
export class SimulatedSettings {
  readonly #journal = new SimulatedJournal(() => this.guests.list())
  readonly routing = new SimulatedRouting(this.#journal)
  /** Of all guests' traffic. */
  period = { periodStart: '2026-11-01', resetsAtMs: Date.UTC(2026, 11, 1), utcOffsetMinutes: 0 }
  readonly #firewalls = new Map<string, Firewall>()
  readonly #used = new Map<string, { rxBytes: number; txBytes: number }>()

  /** Thrown once, after a mapping was added: the caller does not hear of it. */
  lostAnswer: BerthError | undefined
  readonly #done = new Set<string>()

  constructor(
    private readonly guests: SimulatedGuests,
    private readonly capacity: ProcessorsAndMemory,
  ) {}

  readonly calls: SettingsCalls = {
    addPortMapping: async (request) => {
      const guest = this.#change(request)
      const { uuid, portMappings } = guest
      const repeated = request.operationId !== '' && this.#done.has(request.operationId)
      if (!repeated && portMappings.length >= ranges.portMappings.max)
        throw conflict('resource_exhausted', `a container has at most ${ranges.portMappings.max} mappings`)
      const added = repeated ? [] : this.#place([request.mapping!], guest)
      this.#done.add(request.operationId)
      const answer = mappingsOf(this.guests.change(uuid, { portMappings: [...portMappings, ...added] }))
      const lost = this.lostAnswer
      this.lostAnswer = undefined
      if (lost) throw lost
      return answer
    },
    updatePortMapping: async (request) => {
      const guest = this.#change(request)
      const { uuid, portMappings } = guest
      const wanted = changePortMapping(mappingAt(portMappings, request.index), request.change ?? {})
      const [changed] = this.#place([wanted], guest, request.index)
      return mappingsOf(
        this.guests.change(uuid, { portMappings: portMappings.with(request.index, changed!) }),
      )
    },
    removePortMapping: async (request) => {
      const { uuid, portMappings } = this.#change(request)
      mappingAt(portMappings, request.index)
      return mappingsOf(this.guests.change(uuid, { portMappings: portMappings.toSpliced(request.index, 1) }))
    },
    findFreePorts: async ({ protocol, hostIp, count }) => {
      this.#journal.sync()
      const { store } = this.#journal
      checkHostIp({ store }, hostIp, hostAddresses)
      const choice = openChoice({ store, config: simulatedConfig, portHolds }, new Set())
      return { ports: choice.pick({ protocol: protocol === 'udp' ? 'udp' : 'tcp', hostIp, count }) }
    },
    getFirewall: async ({ uuid }) => {
      const { revision } = this.#get({ uuid, ifRevision: 0 })
      return { firewall: this.#firewalls.get(uuid) ?? noFirewall, revision }
    },
    setFirewall: async (request) => {
      const { uuid } = this.#change(request)
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
      const guest = this.#change(request)
      if (guest.status === GuestStatus.GUEST_STATUS_CREATING)
        throw conflict('task_running', 'the container is being created')
      const old = GuestLimits.create(guest.limits)
      const limits = checkLimits({ ...old, ...sent(wanted) })
      checkCapacityChange(old, limits, this.capacity)
      return { limits, revision: this.guests.change(guest.uuid, { limits }).revision }
    },
    setTrafficLimit: async (request) => {
      const { uuid: _uuid, ifRevision: _revision, ...wanted } = request
      const guest = this.#change(request)
      checkTrafficLimit(wanted)
      const traffic = { ...TrafficLimit.create(guest.traffic), ...sent(wanted) }
      return { traffic, revision: this.#judge(guest.uuid, { traffic }).revision }
    },
    resetTraffic: async (request) => {
      const { uuid } = this.#change(request)
      this.#used.delete(uuid)
      return { revision: this.#judge(uuid).revision }
    },
    getTraffic: async ({ uuid }) => {
      const { traffic } = this.#get({ uuid, ifRevision: 0 })
      const { rxBytes, txBytes } = this.#usedBy(uuid)
      return { limit: TrafficLimit.create(traffic), rxBytes, txBytes, ...this.period }
    },
    setExpiry: async (request) => {
      const { uuid } = this.#change(request)
      const expiresAtMs = parseTime('expires_at', request.expiresAtMs)
      return { revision: this.#judge(uuid, { expiresAtMs }).revision }
    },
    assignIpv6: async (request) => {
      const guest = this.#change(request)
      const had = guest.ipv6Addresses.length
      const asked = request.count + request.addresses.length > 0 || had > 0
      const count = asked ? request.count : 1
      if (had + count + request.addresses.length > networkLimits.addresses.max)
        throw conflict('resource_exhausted', 'a container has no more IPv6 addresses')
      const chosen = this.routing.allocateIpv6({ count, addresses: request.addresses })
      const ipv6Addresses = [...guest.ipv6Addresses, ...chosen]
      const { revision } = this.guests.change(guest.uuid, { ipv6Addresses, ipv6: ipv6Addresses[0] ?? '' })
      return { ipv6Addresses, revision }
    },
  }

  /** What a new guest gets of what its order asks for. @throws {BerthError} as an agent */
  initial(spec: GuestSpec): Partial<Guest> {
    if (spec.limits) checkCapacity(checkLimits(spec.limits), this.capacity)
    const publicIpv4s = this.routing.allocateIpv4({ count: spec.ipv4Count, addresses: spec.publicIpv4s })
    const ipv6Addresses = this.routing.allocateIpv6({ count: spec.ipv6Count, addresses: spec.ipv6Addresses })
    const portMappings = this.#place(spec.portMappings, { uuid: '', ipv6Addresses })
    const ssh = portMappings.find(({ containerPort, protocol }) => containerPort === 22 && protocol === 'tcp')
    const { expiresAtMs, traffic } = spec
    const isOver = expiresAtMs !== 0 && expiresAtMs <= Date.now()
    const policy = isOver ? { policyBlocked: true, policyReason: 'expired' } : {}
    const addresses = { publicIpv4s, ipv6Addresses, ipv6: ipv6Addresses[0] ?? '' }
    return { portMappings, sshPort: ssh?.hostPort ?? 0, ...addresses, expiresAtMs, traffic, ...policy }
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

  /** A guest that may be changed. @throws {BerthError} as an agent */
  #change(request: { uuid: string; ifRevision: number }): Guest {
    const { status } = this.#get({ ...request, ifRevision: 0 })
    if (status === GuestStatus.GUEST_STATUS_DELETING)
      throw conflict('invalid_state', 'the container is being deleted')
    if (status === GuestStatus.GUEST_STATUS_ERROR)
      throw conflict('invalid_state', 'the container is broken, it can only be deleted')
    return this.#get(request)
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

  /**
   * With their host ports, as the agent's journal would have them.
   * @param index of the mapping that they replace: not in its own way
   */
  #place(
    wanted: readonly WantedMapping[],
    { uuid, ipv6Addresses }: Pick<Guest, 'uuid' | 'ipv6Addresses'>,
    index?: number,
  ): PortMapping[] {
    this.#journal.sync()
    const { store, changes } = this.#journal
    const order = {
      wanted: wanted.map((mapping) => checkPortMapping(mapping)),
      ...{ listening: new Set<string>(), hasIpv6: ipv6Addresses.length > 0, hostAddresses },
    }
    return changes.transaction(() => {
      if (index !== undefined) store.removeMapping(uuid, index)
      return reserveMappings({ store, config: simulatedConfig, portHolds }, order)
    })
  }
}

/** No setting is ever under way: each is done before the next is looked at. */
const portHolds = new PortHolds()

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
