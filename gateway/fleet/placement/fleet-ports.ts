import { randomInt } from 'node:crypto'
import type { Logger } from 'pino'
import type { PortMapping } from '../../../proto/gen/berth/agent/v1/guest.js'
import { noAllocation } from '../../../shared/allocation.js'
import { BerthError, conflict, describeError } from '../../../shared/errors.js'
import { steadyClock } from '../../../shared/steady-clock.js'
import { StoredDocument } from '../../store/document.js'
import type { Store } from '../../store/store.js'
import type { MappingOrder, PortRange, UniquePorts } from '../port-contract.js'
import type { HostView } from '../reported.js'
import { planSettled, roomLifetimeMs, type ReservedRoom, type ReservedRooms } from './plan-rooms.js'
import type { RoomStore } from './room-store.js'
import type { FleetState } from '../view.js'
import {
  commonRange,
  countDuplicates,
  planHostPorts,
  PortSet,
  portsOf,
  someContainer,
  withHostPort,
  type HostPorts,
  type ReservedPorts,
} from './plan-ports.js'

/** Maximum number of attempts if the host refuses automatic ports, for example because a program listens there. */
export const portTries = 4

export interface FleetPortsOptions {
  readonly store: Store
  readonly view: FleetState
  readonly rooms: Pick<RoomStore, 'change' | 'list'>
  readonly log: Logger
}

/** Mappings of a new guest, and the reservations that count. */
export interface NewPorts {
  readonly portMappings: readonly PortMapping[]
  /** Reservations of other operations. */
  readonly rooms: ReservedRooms
  /** True if the host has refused ports that were chosen before. */
  readonly isRetry: boolean
}

/** A host for a new guest. `hostPorts` and `ports` are absent if the host chooses the ports. */
export interface HostWithPorts {
  readonly hostId: string
  /** The first host port of each mapping. */
  readonly hostPorts?: readonly number[]
  readonly ports?: ReservedPorts
}

/** Host ports that are unique in the fleet while the setting is on, so that guests keep them when they move. */
export class FleetPorts implements UniquePorts {
  readonly unique: StoredDocument<boolean>

  constructor(private readonly options: FleetPortsOptions) {
    const { store, log } = options
    this.unique = new StoredDocument<boolean>({ store, name: 'unique-ports', initial: false, log })
  }

  countDuplicates(): number {
    return countDuplicates([...this.options.view.guests()].map(({ guest }) => guest))
  }

  get commonRange(): PortRange | undefined {
    return commonRange(this.options.view.hosts().flatMap((host) => rangeOf(host) ?? []))
  }

  /**
   * Chooses the first host whose range has free ports for a new guest. The caller stores the reservation.
   * @param hostIds hosts that can take the guest, best first
   * @throws {BerthError} `port_conflict`, `resource_exhausted`, `agent_outdated`
   */
  choose(hostIds: readonly string[], { portMappings, rooms, isRetry }: NewPorts): HostWithPorts | undefined {
    if (!this.unique.current || portMappings.length === 0)
      return hostIds[0] === undefined ? undefined : { hostId: hostIds[0] }
    let refusal: Error | undefined
    const holderOf = (one: HostPorts): string => this.#describeHolder(one)
    const facts = { isRetry, taken: this.#taken(rooms), holderOf, random: randomInt }
    for (const hostId of hostIds)
      try {
        const hostPorts = planHostPorts(portMappings, { ...facts, ranges: () => this.#rangesFor(hostId) })
        return { hostId, hostPorts, ports: { spans: portMappings.map((one, at) => portsOf(one, hostPorts[at])) } }
      } catch (error) {
        if (isPortConflict(error)) throw error // a requested port is used on every host
        refusal ??= error as Error
      }
    if (refusal) throw refusal
    return undefined
  }

  async suggest(hostId: string, protocol: string, count: number): Promise<number[]> {
    const taken = this.#taken(await this.options.rooms.list())
    const one = { protocol, hostPort: 0, hostPortEnd: 0, containerPort: 0, containerPortEnd: 0 }
    return planHostPorts(Array<typeof one>(count).fill(one), {
      taken,
      ranges: () => this.#rangesFor(hostId),
      random: randomInt,
    })
  }

  async change<T>(order: MappingOrder, send: (mapping: PortMapping) => Promise<T>): Promise<T> {
    if (!this.unique.current) return send(order.wanted)
    for (let tries = 1; ; tries++) {
      const { mapping, room } = await this.#reserve(order, tries > 1)
      try {
        const result = await send(mapping)
        await this.#put(order, planSettled(room, steadyClock.now()))
        return result
      } catch (error) {
        if (isRefusal(error)) await this.#put(order, undefined)
        if (order.wanted.hostPort !== 0 || !isPortConflict(error) || tries === portTries) throw error
      }
    }
  }

  async #reserve(order: MappingOrder, isRetry: boolean) {
    const { guest, wanted, mayName } = order
    const { hostId } = guest
    const holder = guest.guest.uuid
    const named = mayName && { holderOf: (one: HostPorts) => this.#describeHolder(one, holder) }
    const facts = { ranges: () => this.#rangesFor(hostId), isRetry, ...named }
    // The guest may request its own port at another address. Only the host knows the addresses.
    const except = wanted.hostPort === 0 ? undefined : holder
    return this.options.rooms.change((stored) => {
      const [hostPort] = planHostPorts([wanted], { ...facts, taken: this.#taken(stored, except), random: randomInt })
      const ports = { holder, spans: [portsOf(wanted, hostPort)] }
      const room: ReservedRoom = { hostId, limits: noAllocation, ports, untilMs: steadyClock.now() + roomLifetimeMs }
      const mapping = wanted.hostPort === 0 ? withHostPort(wanted, hostPort!) : wanted
      return { changes: new Map([[keyOf(order), room]]), result: { mapping, room } }
    })
  }

  /** Stores a reservation, or removes it. If this fails, the former reservation ends by itself. Never rejects. */
  async #put(order: MappingOrder, room: ReservedRoom | undefined): Promise<void> {
    const { rooms, log } = this.options
    await rooms
      .change(() => ({ changes: new Map([[keyOf(order), room]]), result: undefined }))
      .catch((error: unknown) => log.debug({ reason: describeError(error) }, 'could not free reserved host ports'))
  }

  /** Collects the ports of all guests and reservations. @param except uuid of a guest whose ports do not count */
  #taken(rooms: ReservedRooms, except?: string): PortSet {
    const taken = new PortSet()
    for (const { guest } of this.options.view.guests())
      if (guest.uuid !== except) for (const mapping of guest.portMappings) taken.add(portsOf(mapping))
    const nowMs = steadyClock.earliest()
    for (const { ports, untilMs } of rooms.values())
      if (ports && untilMs > nowMs && (except === undefined || ports.holder !== except))
        ports.spans.forEach((one) => taken.add(one))
    return taken
  }

  /** The ports that all known hosts permit come first, because guests keep them in every move. */
  #rangesFor(hostId: string): PortRange[] {
    const host = this.options.view.findHost(hostId)
    const own = rangeOf(host)
    if (own) return [this.commonRange ?? own, own]
    const name = host?.name ?? hostId
    throw conflict('agent_outdated', `the agent of ${name} is too old for unique host ports: upgrade it first`)
  }

  #describeHolder(wanted: HostPorts, except?: string): string {
    for (const { guest, hostId } of this.options.view.guests())
      if (guest.uuid !== except && guest.portMappings.some((mapping) => meet(portsOf(mapping), wanted)))
        return `the container ${guest.name} on ${this.options.view.findHost(hostId)?.name ?? hostId}`
    return someContainer
  }
}

/** Range for host ports of a host. Undefined: its agent does not report it, or reports nonsense. */
function rangeOf(host: HostView | undefined): PortRange | undefined {
  const { natPortsStart: start = 0, natPortsTotal = 0 } = host?.description?.capacity ?? {}
  const end = start + natPortsTotal - 1
  return start >= 1 && start <= end && end <= 65_535 ? { start, end } : undefined
}

export function isPortConflict(error: unknown): boolean {
  return error instanceof BerthError && error.code === 'port_conflict'
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof BerthError && ['invalid', 'conflict', 'exhausted', 'not_found', 'forbidden'].includes(error.kind)
  )
}

function meet(one: HostPorts, other: HostPorts): boolean {
  return one.protocol === other.protocol && one.first <= other.last && other.first <= one.last
}

function keyOf({ operationId }: MappingOrder): string {
  return `ports ${operationId}`
}
