import { describeError, toBerthError } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { listHostAddresses } from '../host/addresses.js'
import { readTrackedFlows } from '../host/conntrack.js'
import { Nft } from '../host/nft.js'
import type { NetlinkWatch } from '../host/netlink-watch.js'
import { Bridge } from './bridge/bridge.js'
import type { ByteCounters, GuestNetwork, Network } from './contract.js'
import { countersByGuest } from './tables/counters.js'
import type { ElementIndex } from './tables/element-index.js'
import { readWarnings } from './bridge/foreign.js'
import { Guard } from './bridge/guard.js'
import type { Change } from './tables/plan-change.js'
import { findAbandoned, type StaleFlows } from './flows/plan-purge.js'
import { StaleFlowQueue } from './flows/purge.js'
import { parseClosed } from './ruleset/plan-closed.js'
import { formatIpv4, parseSubnet, type Subnet } from './subnet.js'
import { Tables } from './tables/tables.js'

/** Whoever changes tables changes several: they are looked at once that long after the first. */
const settleMs = 500
const lullMs = 100
/** Where changes are watched, `ensure` reads tables that often; in between it costs next to nothing. */
const fullReadMs = 60_000

const nothingDone = {
  repairs: [],
  stale: { addresses: [], publicAddresses: [], mappings: [], newDatagrams: [] },
}

export interface NetworkOptions {
  /** Traffic between guests of this host is counted too. */
  readonly countInternal?: boolean
  /** Tells what others change; without it everything is read each time. */
  readonly watch?: NetlinkWatch
  /** Name servers of guests, reached also where they are among `closed_destinations`. */
  readonly resolvers?: readonly string[]
}

/**
 * The host's network for guests.
 * @throws {BerthError} `invalid_field` when the configured subnet or a closed destination is none
 */
export function createNetwork(config: AgentConfig['network'], options: NetworkOptions = {}): Network {
  return new HostNetwork(config, parseSubnet(config.subnet), options)
}

class HostNetwork implements Network {
  readonly #nft = new Nft()
  readonly #tables: Tables
  readonly #bridge: Bridge
  readonly #guard: Guard
  readonly #watch: NetlinkWatch | undefined
  /** Guests that should be on the network, as far as told. */
  #known = new Map<string, GuestNetwork>()
  /** Guests that were detached but are still in the journal: being deleted. */
  readonly #detached = new Set<string>()
  readonly #stale = new StaleFlowQueue(readHostAddresses)
  /** Set when another program changed the tables since they were last read in full. */
  #disturbed = true
  /** Of what other programs filter nothing is known, or they changed it since. */
  #othersChanged = true
  /** What the tables were made of, nothing having changed them since. */
  #converged: readonly GuestNetwork[] | undefined
  #readAtMs = 0
  #flowsChecked = false
  #onForeignChange: (() => void) | undefined
  #settling: NodeJS.Timeout | undefined
  #warnings: readonly string[] = []
  #purging: NodeJS.Timeout | undefined
  #queue: Promise<unknown> = Promise.resolve()

  constructor(
    private readonly config: AgentConfig['network'],
    private readonly subnet: Subnet,
    { countInternal = false, watch, resolvers = [] }: NetworkOptions,
  ) {
    this.#watch = watch
    watch?.onChange('tables', () => {
      this.#tables.disturbed()
      this.#noteForeignChange()
    })
    watch?.onChange('others', () => (this.#othersChanged = true))
    this.#tables = new Tables(this.#nft, {
      table: config.table,
      bridge: config.bridge,
      interfacePrefix: config.interface_prefix,
      subnet: subnet.cidr,
      gateway: subnet.gateway,
      subnet6: config.subnet6,
      countInternal,
      closed: parseClosed(config.closed_destinations),
      resolvers,
    })
    const { table, bridge, interface_prefix: interfacePrefix } = config
    this.#bridge = new Bridge({
      name: bridge,
      subnet,
      devices: () => [...this.#known.values()].map(({ device }) => device),
      watch,
      onBroken: () => this.#onForeignChange?.(),
    })
    this.#guard = new Guard(this.#nft, { table, bridge, interfacePrefix }, () => this.#noteForeignChange())
  }

  get warnings(): readonly string[] {
    return this.#warnings
  }

  async ensure(journaled: readonly GuestNetwork[]): Promise<string[]> {
    const repairs = await this.#inTurn('ensure the network', async () => {
      const settled = journaled === this.#converged && this.#isUndisturbed()
      const { repairs, stale } = settled ? nothingDone : await this.#converge(journaled)
      this.#stale.add(stale)
      await this.#tables.noteFirewalls()
      await this.#readWarnings()
      return [...repairs, ...(await this.#bridge.ensure())]
    })
    await this.#purge()
    return repairs
  }

  async attach(guest: GuestNetwork): Promise<void> {
    const urgent = await this.#inTurn(`attach ${guest.device}`, async () => {
      const before = this.#known.get(guest.uuid)
      this.#detached.delete(guest.uuid)
      this.#known.set(guest.uuid, guest)
      try {
        const stale = await this.#change((index) => index.planAttach(guest))
        return (
          isUrgent(stale) || this.#stale.leadsAstray(stale.newDatagrams) || !hasSameAddresses(guest, before)
        )
      } catch (cause) {
        // What was refused is not what a later repair should bring.
        if (before) this.#known.set(guest.uuid, before)
        else this.#known.delete(guest.uuid)
        throw cause
      }
    })
    this.#noteSoon()
    if (urgent) await this.#purge()
    else this.#purgeSoon()
  }

  async detach(guest: GuestNetwork): Promise<void> {
    await this.#inTurn(`detach ${guest.device}`, async () => {
      this.#detached.add(guest.uuid)
      this.#known.delete(guest.uuid)
      await this.#change((index) => index.planDetach(guest))
      this.#tables.forgetCounted(guest)
      const addresses = [guest.ipv4, ...guest.ipv6Addresses]
      this.#stale.add({ addresses, publicAddresses: [], mappings: [], newDatagrams: [] })
    })
    this.#purgeSoon()
  }

  readCounters(): Promise<ReadonlyMap<string, ByteCounters>> {
    return this.#inTurn('read counters', async () =>
      countersByGuest(this.#known.values(), await this.#tables.readCounted()),
    )
  }

  onForeignChange(listener: () => void): void {
    this.#onForeignChange = listener
  }

  remove(): Promise<void> {
    return this.#inTurn('remove the network', async () => {
      await this.#guard.close()
      await this.#tables.remove()
      await this.#bridge.remove()
      await this.#end()
    })
  }

  close(): Promise<void> {
    return this.#inTurn('close the network', () => this.#end())
  }

  #noteForeignChange(): void {
    this.#disturbed = true
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined
      this.#onForeignChange?.()
    }, settleMs).unref()
  }

  async #change(planOn: (index: ElementIndex) => Change): Promise<StaleFlows> {
    this.#converged = undefined
    const stale = await this.#tables.change(planOn, [...this.#known.values()])
    this.#stale.add(stale)
    return stale
  }

  /** The tables come before the bridge: no guest is ever on it without them. */
  async #converge(journaled: readonly GuestNetwork[]): ReturnType<Tables['ensure']> {
    this.#converged = undefined
    const guests = this.#withoutDetached(journaled)
    this.#known = new Map(guests.map((guest) => [guest.uuid, guest]))
    const done = await this.#ensureTables(guests)
    await this.#findAbandonedFlows(guests)
    this.#converged = journaled
    return done
  }

  /** Once: an earlier agent may have ended between a guest's elements and its flows. */
  async #findAbandonedFlows(guests: readonly GuestNetwork[]): Promise<void> {
    if (this.#flowsChecked) return
    const { first, last } = this.subnet
    const others = guests.flatMap(({ ipv6Addresses }) => ipv6Addresses)
    const flows = await readTrackedFlows({ first: formatIpv4(first), last: formatIpv4(last) }, others)
    this.#stale.add(findAbandoned(flows, guests, this.subnet))
    this.#flowsChecked = true
  }

  /**
   * Nobody waits for it but the next attach, which may be of a new owner; and it need not compete with what those
   * wait for who asked for the change.
   */
  #purgeSoon(): void {
    this.#purging ??= setTimeout(() => {
      this.#purging = undefined
      this.#purge().catch(() => undefined)
    }, lullMs).unref()
  }

  /** In its turn, at once, so that nobody comes between; what fails is made up for when the tables are read. */
  #noteSoon(): void {
    this.#inTurn('note firewalls', () => this.#tables.noteFirewalls()).catch(() => undefined)
  }

  /** What would not go stays noted for the next time. */
  async #purge(): Promise<void> {
    try {
      await this.#stale.purge()
    } catch (cause) {
      throw toBerthError(cause, 'forget flows of earlier owners')
    }
  }

  /** Tables that nobody else touched are not read each time; a monitor may miss something, so at times they are. */
  async #ensureTables(guests: readonly GuestNetwork[]): ReturnType<Tables['ensure']> {
    const now = performance.now()
    if (this.#isUndisturbed()) return this.#tables.adapt(guests)
    this.#disturbed = false
    try {
      const result = await this.#tables.ensure(guests)
      await this.#guard.ensure()
      this.#othersChanged = true
      this.#readAtMs = now
      return result
    } catch (cause) {
      this.#disturbed = true
      throw cause
    }
  }

  async #readWarnings(): Promise<void> {
    if (!this.#othersChanged) return
    this.#othersChanged = false
    this.#warnings = await readWarnings(this.#nft, this.config).catch((cause: unknown) => [
      `what other programs filter could not be read: ${describeError(cause)}`,
    ])
  }

  #isUndisturbed(): boolean {
    const age = performance.now() - this.#readAtMs
    return this.#watch !== undefined && !this.#disturbed && age < fullReadMs
  }

  #withoutDetached(journaled: readonly GuestNetwork[]): GuestNetwork[] {
    const uuids = new Set(journaled.map(({ uuid }) => uuid))
    for (const uuid of this.#detached) if (!uuids.has(uuid)) this.#detached.delete(uuid)
    return journaled.filter(({ uuid }) => !this.#detached.has(uuid))
  }

  async #end(): Promise<void> {
    clearTimeout(this.#purging)
    clearTimeout(this.#settling)
    await this.#tables.noteFirewalls().catch(() => undefined) // none is left for a later turn
    await this.#purge().catch(() => undefined)
    await Promise.all([this.#nft.close(), this.#bridge.close(), this.#guard.close()])
  }

  #inTurn<T>(step: string, work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work).catch((cause: unknown) => {
      throw toBerthError(cause, step)
    })
    this.#queue = result.catch(() => undefined)
    return result
  }
}

/**
 * Flows that would go on to another than they should: they are forgotten before the change is answered. What
 * is left of a mapping that went ends with its guest, moments later. Nor are datagrams waited for that came to a port
 * before it was mapped: a client that goes on from its port reaches nobody for those moments, every other the guest.
 */
function isUrgent({ addresses, publicAddresses }: StaleFlows): boolean {
  return addresses.length + publicAddresses.length > 0
}

/** Another owner of an address may have left flows that wait to be forgotten. */
function hasSameAddresses(guest: GuestNetwork, before: GuestNetwork | undefined): boolean {
  const had = new Set(before && [before.ipv4, ...before.ipv6Addresses])
  return [guest.ipv4, ...guest.ipv6Addresses].every((address) => had.has(address))
}

function readHostAddresses(): string[] {
  return [...listHostAddresses('ipv4'), ...listHostAddresses('ipv6')]
}
