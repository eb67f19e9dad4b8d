import type { Logger } from 'pino'
import { Mutex } from '../../../shared/async/mutex.js'
import { checkPortRange } from '../../../shared/port-mapping-rules.js'
import type { AgentConfig } from '../../config.js'
import type { Changes } from '../../state/changes.js'
import { countPorts, type PortRange } from '../ports.js'
import { holdPrefixes } from './held-prefixes.js'
import { findIpv6Hindrance, kernelFacts, type HostFacts } from './host-facts.js'
import { availableSources, findSource, type Ipv6Mode, type Ipv6Plan } from './plan-ipv6.js'
import { checkNamedAddresses, checkPoolChange, checkPortsChange, checkSourcesChange } from './plan-routing.js'
import type { ScannedAddress } from './plan-scan.js'
import { parsePool, parsePrefixes, type Ipv6Prefix, type PoolAddress, type PoolRules } from './pool.js'
import { checkSharedPrefixes, forgetDeparted, parseSharedPools, readElsewhere } from './shared-pools.js'
import { readPoolRules } from './pool-rules.js'
import { scanIpv4, type ScanRequest } from './scan.js'
import {
  readAssignments,
  readHeldPrefixes,
  readMappedAddresses,
  readMappedPorts,
  readNatPorts,
  readPool,
  readPrefixes,
  replacePool,
  replacePrefixes,
  writeHeldPrefixes,
  writeNatPorts,
} from './address-tables.js'

/** An address of a pool and the guest that has it. */
export interface AddressAssignment {
  readonly guestUuid: string
  readonly address: string
  readonly interface: string
  readonly prefixLen: number
  readonly gateway: string
}

/** The host's address pools and port range, and which of their addresses and ports are in use. */
export interface RoutingState {
  readonly nat4Ports: PortRange
  readonly nat4PortsUsed: number
  readonly ipv4Pool: PoolAddress[]
  readonly ipv4Assignments: AddressAssignment[]
  /** Prefixes set through the API. If no prefixes are set: the prefixes found on the host's interfaces. */
  readonly ipv6Prefixes: Ipv6Prefix[]
  readonly ipv6Assignments: AddressAssignment[]
}

/** A change of pools. A list that is undefined does not change. */
export interface RoutingChange {
  readonly ipv4Pool?: readonly PoolAddress[] | undefined
  readonly ipv6Prefixes?: readonly Ipv6Prefix[] | undefined
  readonly nat4Ports?: PortRange | undefined
  /** True if the gateway has checked that no other host has the new addresses of shared pools (see shared-pools.ts). */
  readonly isChecked?: boolean
}

interface Replacement extends RoutingChange {
  /** Only for a rollback: the held prefixes (see held-prefixes.ts) that the agent had before the change. */
  readonly heldPrefixes?: readonly Ipv6Prefix[] | undefined
}

export interface Ipv6Status {
  readonly available: boolean
  /** True if the host has an IPv6 default route and its router answers. */
  readonly reachable: boolean
  /** Reason why IPv6 is not available or not reachable, or other remarks. May be empty. */
  readonly reason: string
  readonly prefixes: Ipv6Prefix[]
  readonly mode: Ipv6Mode | ''
}

/** The part of `Network` that this module needs: it plans the sources of guests' IPv6 addresses. */
interface Ipv6Reader {
  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan
}

export interface RoutingOptions {
  readonly changes: Changes
  readonly config: Pick<AgentConfig, 'network' | 'listen'>
  readonly book: Ipv6Reader
  /** Changes the host's addresses to match the journal, for all guests. */
  readonly applyAddresses: () => Promise<unknown>
  readonly log: Logger
  /** Facts about the host. Default: read from the kernel. */
  readonly facts?: HostFacts
}

/** Reads and changes the host's pools of addresses and ports. */
export class Routing {
  readonly #facts: HostFacts
  readonly #mutex = new Mutex()

  constructor(private readonly options: RoutingOptions) {
    this.#facts = options.facts ?? kernelFacts
  }

  getRouting(): RoutingState {
    const { db } = this.options.changes
    const ipv4Pool = readPool(db)
    const pool = new Map(ipv4Pool.map((item) => [item.address, item]))
    const { sources } = this.options.book.readIpv6()
    const none = { interface: '', prefixLen: 0, gateway: '' }
    const nat4Ports = readNatPorts(db, this.options.config.network.nat_ports)
    return {
      nat4Ports,
      nat4PortsUsed: countPorts(db, nat4Ports),
      ipv4Pool,
      ipv4Assignments: readAssignments(db, 4).map(({ guestUuid, address }) => ({
        ...(pool.get(address) ?? none),
        guestUuid,
        address,
      })),
      ipv6Prefixes: sources.map(({ prefix }) => prefix),
      ipv6Assignments: readAssignments(db, 6).map(({ guestUuid, address }) => ({
        ...(findSource(sources, address)?.prefix ?? none),
        guestUuid,
        address,
      })),
    }
  }

  /**
   * Replaces the lists in `change`. Returns when the new lists have taken effect. On failure, restores the old lists.
   * @throws {BerthError} `invalid_field`, `address_in_use` if a guest would lose an address, `port_conflict`
   */
  setRouting(change: RoutingChange): Promise<RoutingState> {
    return this.#mutex.run(() => this.#set(change))
  }

  /** @throws {BerthError} `invalid_field` */
  scanIpv4(request: ScanRequest): Promise<ScannedAddress[]> {
    const { db } = this.options.changes
    const { interfaces, ownAddresses: own } = this.#readRules()
    return scanIpv4(request, {
      pool: new Set(readPool(db).map(({ address }) => address)),
      assigned: new Set(readAssignments(db, 4).map(({ address }) => address)),
      interfaces,
      own,
      facts: this.#facts,
    })
  }

  async getIpv6Status(): Promise<Ipv6Status> {
    const { sources, reason } = this.options.book.readIpv6()
    const hindrance = await findIpv6Hindrance(this.#facts)
    const available = availableSources(sources)
    return {
      available: available.length > 0,
      reachable: hindrance === '',
      reason: [...new Set([reason, hindrance])].filter(Boolean).join('; '),
      prefixes: sources.map(({ prefix }) => prefix),
      mode: available[0]?.mode ?? '',
    }
  }

  async #set(change: RoutingChange): Promise<RoutingState> {
    const { changes, applyAddresses } = this.options
    const wanted = this.#parse(change)
    const before = changes.transaction(() => this.#replace(wanted))
    // The port range affects only future mappings, so the host needs no change.
    if (!wanted.ipv4Pool && !wanted.ipv6Prefixes) return this.getRouting()
    try {
      await applyAddresses()
    } catch (error) {
      this.#takeBack(before)
      await applyAddresses().catch(() => undefined) // a later comparison with the journal repairs a failure
      throw error
    }
    return this.getRouting()
  }

  #parse({ ipv4Pool, ipv6Prefixes, nat4Ports, isChecked = false }: RoutingChange): RoutingChange {
    const rules = this.#readRules()
    if (nat4Ports) checkPortRange('nat4_port_range', nat4Ports)
    const prefixes = ipv6Prefixes && parsePrefixes(this.#withoutPrivate(ipv6Prefixes), rules)
    if (prefixes) checkSharedPrefixes(prefixes, parseSharedPools(this.options.config.network.shared_pools))
    return {
      ipv4Pool: ipv4Pool && parsePool(ipv4Pool, rules),
      ipv6Prefixes: prefixes,
      nat4Ports,
      isChecked,
    }
  }

  /** Removes NAT66's private network from `prefixes`. Callers can send this network, because `getRouting` lists it. */
  #withoutPrivate(prefixes: readonly Ipv6Prefix[]): readonly Ipv6Prefix[] {
    const own = this.options.book.readIpv6().sources.find(({ mode }) => mode === 'nat66')?.prefix
    return prefixes.filter(({ prefix, prefixLen }) => prefix !== own?.prefix || prefixLen !== own.prefixLen)
  }

  /**
   * Replaces the lists that are not undefined, inside the caller's transaction.
   * @returns the previous lists
   * @throws {BerthError} like `setRouting`
   */
  #replace({ ipv4Pool, ipv6Prefixes, nat4Ports, heldPrefixes, isChecked = false }: Replacement): Replacement {
    const { db } = this.options.changes
    const before = {
      ipv4Pool: ipv4Pool && readPool(db),
      ipv6Prefixes: ipv6Prefixes && readPrefixes(db),
      heldPrefixes: ipv6Prefixes && readHeldPrefixes(db),
      nat4Ports: nat4Ports && readNatPorts(db, this.options.config.network.nat_ports),
    }
    if (ipv4Pool) this.#replacePool(ipv4Pool, isChecked)
    if (ipv6Prefixes) this.#replacePrefixes(ipv6Prefixes, heldPrefixes)
    if (nat4Ports) this.#replacePorts(nat4Ports)
    return before
  }

  /**
   * Restores the earlier lists of addresses and ports, each in its own transaction. A new list stays if a guest has got
   * an address or a port from it in the meantime, because the guest would lose it.
   */
  #takeBack({ ipv4Pool, ipv6Prefixes, heldPrefixes, nat4Ports }: Replacement): void {
    const { changes, log } = this.options
    for (const list of [{ ipv4Pool }, { ipv6Prefixes, heldPrefixes }, { nat4Ports }])
      try {
        changes.transaction(() => this.#replace(list))
      } catch (err) {
        log.error({ err }, 'could not restore the earlier address pools')
      }
  }

  #replacePool(items: readonly PoolAddress[], isChecked: boolean): void {
    const { db } = this.options.changes
    const assigned = readAssignments(db, 4).map(({ address }) => address)
    const elsewhere = readElsewhere(db, isChecked)
    checkPoolChange(items, { assigned, mapped: readMappedAddresses(db), elsewhere })
    replacePool(db, items)
    forgetDeparted(db, new Set(items.map(({ address }) => address)))
  }

  /** @param held only for a rollback: the held prefixes (see held-prefixes.ts) that the agent had before the change */
  #replacePrefixes(items: readonly Ipv6Prefix[], held: readonly Ipv6Prefix[] = []): void {
    const { changes, book } = this.options
    const assigned = readAssignments(changes.db, 6).map(({ address }) => address)
    // A prefix that the host has lost can be replaced, because its addresses do not work anyway.
    const before = book.readIpv6().sources.filter(({ isFound, isMissing }) => !(isFound && isMissing))
    const after = book.readIpv6(items, held).sources
    checkSourcesChange({ before, after }, assigned)
    checkNamedAddresses(items, assigned)
    replacePrefixes(changes.db, items)
    writeHeldPrefixes(changes.db, held)
    holdPrefixes(changes.db, book.readIpv6(), assigned)
  }

  #replacePorts(range: PortRange): void {
    const { db } = this.options.changes
    checkPortsChange(range, readMappedPorts(db))
    writeNatPorts(db, range)
  }

  #readRules(): PoolRules {
    const { changes, config } = this.options
    return readPoolRules(this.#facts, config, readPool(changes.db))
  }
}
