import { Throttle } from '../../../shared/async/throttle.js'
import { asStep, describeError, toBerthError } from '../../../shared/errors.js'
import type { AgentConfig } from '../../config.js'
import { listHostAddresses } from '../../host/net/addresses.js'
import { readTrackedFlows } from '../../host/net/conntrack.js'
import { Nft } from '../../host/net/nft.js'
import type { NetlinkWatch } from '../../host/net/netlink-watch.js'
import { hasKernelPids } from '../../host/process/proc.js'
import { Bridge } from '../bridge/bridge.js'
import type { ByteCounters, GuestNetwork, Rules } from '../contract.js'
import { Drift } from '../drift.js'
import { Mutex } from '../../../shared/async/mutex.js'
import { KnownGuests } from '../known-guests.js'
import { countersByGuest } from './tables/counters.js'
import type { ElementIndex } from './tables/element-index.js'
import { readWarnings } from './foreign.js'
import { Guard } from './guard.js'
import type { TableChange } from './tables/plan-change.js'
import { findAbandoned, type StaleFlows } from './tables/plan-purge.js'
import { StaleFlowQueue } from './tables/purge.js'
import { parseClosed } from './ruleset/plan-closed.js'
import { formatIpv4, parseSubnet, type Subnet } from '../subnet.js'
import { Tables } from './tables/tables.js'

/** Delay in ms of `onForeignChange` after the first change, because programs often make several changes in a row. */
const settleMs = 500
const lullMs = 100
/** Interval in ms at which `ensure` reads the tables, even if the netlink watch has reported no change. */
const fullReadMs = 60_000

const nothingDone = {
  repairs: [],
  stale: { addresses: [], publicAddresses: [], mappings: [], newDatagrams: [] },
}

export interface RulesOptions {
  /** True if traffic between guests of this host is counted too. */
  readonly countInternal?: boolean
  /** Reports changes by other programs. Undefined: each `ensure` reads everything. */
  readonly watch?: NetlinkWatch
  /** Name servers of guests. Their port 53 stays open even if `closed_destinations` contains them. */
  readonly resolvers?: readonly string[]
}

/**
 * Creates the rules: the bridge and the nft tables.
 * @throws {BerthError} `invalid_field` if the configured subnet or a closed destination is invalid
 */
export function createRules(config: AgentConfig['network'], options: RulesOptions = {}): Rules {
  return new HostRules(config, parseSubnet(config.subnet), options)
}

class HostRules implements Rules {
  readonly #nft = new Nft()
  readonly #tables: Tables
  readonly #bridge: Bridge
  readonly #guard: Guard
  readonly #known = new KnownGuests()
  readonly #stale = new StaleFlowQueue(readHostAddresses)
  readonly #drift: Drift
  /** True if other programs' filters have changed, or were not read yet. */
  #othersChanged = true
  /** Argument of the last successful `ensure`, which need not be planned again. Undefined after an attach or detach. */
  #converged: readonly GuestNetwork[] | undefined
  #flowsChecked = false
  #onForeignChange: (() => void) | undefined
  readonly #settling = new Throttle(() => this.#onForeignChange?.(), { intervalMs: settleMs })
  #warnings: readonly string[] = []
  /**
   * Deletes outdated connections from the kernel's table in the background, so that a change need not wait for the
   * deletion. An attach waits only if such a connection could lead to the wrong guest.
   */
  readonly #purging = new Throttle(() => void this.#purge().catch(() => undefined), { intervalMs: lullMs })
  readonly #mutex = new Mutex()

  constructor(
    private readonly config: AgentConfig['network'],
    private readonly subnet: Subnet,
    { countInternal = false, watch, resolvers = [] }: RulesOptions,
  ) {
    this.#drift = new Drift(watch ? fullReadMs : 0)
    watch?.onChange('tables', () => {
      if (hasKernelPids()) this.#tables.disturbed()
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
      devices: () => this.#known.list().map(({ device }) => device),
      watch,
      onBroken: () => this.#onForeignChange?.(),
    })
    this.#guard = new Guard(this.#nft, { table, bridge, interfacePrefix }, () => this.#noteForeignChange())
  }

  get warnings(): readonly string[] {
    return this.#warnings
  }

  async ensure(journaled: readonly GuestNetwork[]): Promise<string[]> {
    const repairs = await this.#mutex.run(
      asStep('set up the network of guests', async () => {
        const settled = journaled === this.#converged && !this.#drift.isDue
        const { repairs, stale } = settled ? nothingDone : await this.#converge(journaled)
        this.#stale.add(stale)
        await this.#tables.noteFirewalls()
        await this.#readWarnings()
        return [...repairs, ...(await this.#bridge.ensure())]
      }),
    )
    await this.#purge()
    return repairs
  }

  async attach(guest: GuestNetwork): Promise<void> {
    const urgent = await this.#mutex.run(
      asStep(`connect the guest at ${guest.device} to the network`, async () => {
        const before = this.#known.find(guest.uuid)
        this.#known.attach(guest)
        try {
          const stale = await this.#change((index) => index.planAttach(guest))
          return isUrgent(stale) || this.#stale.leadsAstray(stale.newDatagrams) || !hasSameAddresses(guest, before)
        } catch (cause) {
          // The attach failed, so a later repair must not attach the guest.
          this.#known.putBack(guest.uuid, before)
          throw cause
        }
      }),
    )
    this.#noteSoon()
    if (urgent) await this.#purge()
    else this.#purging.request()
  }

  async detach(guest: GuestNetwork): Promise<void> {
    await this.#mutex.run(
      asStep(`disconnect the guest at ${guest.device} from the network`, async () => {
        this.#known.detach(guest.uuid)
        await this.#change((index) => index.planDetach(guest))
        this.#tables.forgetCounted(guest)
        const addresses = [guest.ipv4, ...guest.ipv6Addresses]
        this.#stale.add({ addresses, publicAddresses: [], mappings: [], newDatagrams: [] })
      }),
    )
    this.#purging.request()
  }

  readCounters(): Promise<ReadonlyMap<string, ByteCounters>> {
    return this.#mutex.run(
      asStep('read the traffic counters of guests', async () =>
        countersByGuest(this.#known.list(), await this.#tables.readCounted()),
      ),
    )
  }

  onForeignChange(listener: () => void): void {
    this.#onForeignChange = listener
  }

  remove(): Promise<void> {
    return this.#mutex.run(
      asStep('remove the network of guests', async () => {
        await this.#guard.close()
        await this.#tables.remove()
        await this.#bridge.remove()
        await this.#end()
      }),
    )
  }

  close(): Promise<void> {
    return this.#mutex.run(asStep('stop managing the network of guests', () => this.#end()))
  }

  #noteForeignChange(): void {
    this.#drift.note()
    this.#settling.request()
  }

  async #change(planOn: (index: ElementIndex) => TableChange): Promise<StaleFlows> {
    this.#converged = undefined
    const stale = await this.#tables.change(planOn, this.#known.list())
    this.#stale.add(stale)
    return stale
  }

  /** Repairs the tables. Call it before the bridge is repaired, so that no guest is on the bridge without rules. */
  async #converge(journaled: readonly GuestNetwork[]): ReturnType<Tables['ensure']> {
    this.#converged = undefined
    const guests = this.#known.replace(journaled)
    const done = await this.#ensureTables(guests)
    await this.#findAbandonedFlows(guests)
    this.#converged = journaled
    return done
  }

  /** Finds flows to former addresses of guests. Such flows exist if an earlier agent ended before it purged them. */
  async #findAbandonedFlows(guests: readonly GuestNetwork[]): Promise<void> {
    if (this.#flowsChecked) return
    const { first, last } = this.subnet
    const others = guests.flatMap(({ ipv6Addresses }) => ipv6Addresses)
    const flows = await readTrackedFlows({ first: formatIpv4(first), last: formatIpv4(last) }, others)
    this.#stale.add(findAbandoned(flows, guests, this.subnet))
    this.#flowsChecked = true
  }

  /**
   * Stores hashes of the changed firewalls in the background (observed.ts). The work joins the mutex's queue at once,
   * so that later calls wait for it. If the work fails, the next read of the tables counts the firewalls as changed.
   */
  #noteSoon(): void {
    this.#mutex.run(asStep('read the firewalls of guests', () => this.#tables.noteFirewalls())).catch(() => undefined)
  }

  /** Purges the queued flows. If the purge fails, the flows stay queued for the next purge. */
  async #purge(): Promise<void> {
    try {
      await this.#stale.purge()
    } catch (cause) {
      throw toBerthError(cause, 'could not remove connections that former owners of guest addresses left behind')
    }
  }

  /** Reads the tables only after changes by other programs, and at intervals, because the watch can miss changes. */
  async #ensureTables(guests: readonly GuestNetwork[]): ReturnType<Tables['ensure']> {
    if (!this.#drift.isDue) return this.#tables.adapt(guests)
    return this.#drift.look(async () => {
      const result = await this.#tables.ensure(guests)
      await this.#guard.ensure()
      this.#othersChanged = true
      return result
    })
  }

  async #readWarnings(): Promise<void> {
    if (!this.#othersChanged) return
    this.#othersChanged = false
    this.#warnings = await readWarnings(this.#nft, this.config).catch((cause: unknown) => [
      `the packet filters of other programs could not be read: ${describeError(cause)}`,
    ])
  }

  async #end(): Promise<void> {
    this.#purging.close()
    this.#settling.close()
    this.#onForeignChange = undefined
    await this.#tables.noteFirewalls().catch(() => undefined) // without these hashes, the next agent would set all firewalls again
    await this.#purge().catch(() => undefined)
    await Promise.all([this.#nft.close(), this.#bridge.close(), this.#guard.close()])
  }
}

/**
 * True if stale flows could reach the wrong guest. They must then be purged before the change returns. Other stale
 * flows do little harm and can be purged later: after a mapping is removed, its flows still reach its former guest. UDP
 * flows that began before their port was mapped reach no guest.
 */
function isUrgent({ addresses, publicAddresses }: StaleFlows): boolean {
  return addresses.length + publicAddresses.length > 0
}

/** True if the guest has no new address. A new address can still have flows of the guest that had it before. */
function hasSameAddresses(guest: GuestNetwork, before: GuestNetwork | undefined): boolean {
  const had = new Set(before && [before.ipv4, ...before.ipv6Addresses])
  return [guest.ipv4, ...guest.ipv6Addresses].every((address) => had.has(address))
}

function readHostAddresses(): string[] {
  return [...listHostAddresses('ipv4'), ...listHostAddresses('ipv6')]
}
