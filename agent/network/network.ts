import { toBerthError } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { readHostIpv4 } from '../host/addresses.js'
import { readTrackedAddresses } from '../host/conntrack.js'
import { Ip } from '../host/ip.js'
import { Nft } from '../host/nft.js'
import { NftMonitor } from '../host/nft-monitor.js'
import type { GuestNetwork, Network } from './contract.js'
import { ensureBridge, ensureSysctls } from './ensure.js'
import type { ElementIndex } from './element-index.js'
import type { ElementChange } from './plan-guest.js'
import { StaleFlowQueue } from './purge.js'
import { parseIpv4, parseSubnet, type Subnet } from './subnet.js'
import { Tables } from './tables.js'

/** Whoever changes tables changes several: they are looked at once that long after the first. */
const settleMs = 500
/** While a monitor runs, `ensure` reads the tables that often; called in between it costs next to nothing. */
const fullReadMs = 20_000

/**
 * The host's network for guests.
 * @throws {BerthError} `invalid_field` when the configured subnet is none
 */
export function createNetwork(config: AgentConfig['network']): Network {
  return new HostNetwork(config, parseSubnet(config.subnet))
}

class HostNetwork implements Network {
  readonly #nft = new Nft()
  readonly #ip = new Ip()
  readonly #tables: Tables
  /** Guests that should be on the network, as far as told. */
  #known = new Map<string, GuestNetwork>()
  /** Guests that were detached but are still in the journal: being deleted. */
  readonly #detached = new Set<string>()
  #monitor: NftMonitor | undefined
  readonly #stale = new StaleFlowQueue(readHostIpv4)
  /** Set when another program changed the tables since they were last read in full. */
  #disturbed = true
  #readAtMs = 0
  #flowsChecked = false
  #queue: Promise<unknown> = Promise.resolve()

  constructor(
    private readonly config: AgentConfig['network'],
    private readonly subnet: Subnet,
  ) {
    this.#tables = new Tables(this.#nft, {
      table: config.table,
      bridge: config.bridge,
      interfacePrefix: config.interface_prefix,
      subnet: subnet.cidr,
      gateway: subnet.gateway,
    })
  }

  async ensure(journaled: readonly GuestNetwork[]): Promise<string[]> {
    const repairs = await this.#inTurn('ensure the network', async () => {
      const guests = this.#withoutDetached(journaled)
      this.#known = new Map(guests.map((guest) => [guest.uuid, guest]))
      // The tables come before the bridge: no guest is ever on it without them.
      const { repairs, stale } = await this.#ensureTables(guests)
      this.#stale.add(stale)
      await this.#findAbandonedFlows(guests)
      const bridge = await ensureBridge(this.#ip, this.config.bridge, this.subnet)
      const sysctls = await ensureSysctls(this.config.bridge)
      return [...repairs, ...bridge, ...sysctls]
    })
    await this.#purge()
    return repairs
  }

  async attach(guest: GuestNetwork): Promise<void> {
    await this.#inTurn(`attach ${guest.device}`, () => {
      this.#detached.delete(guest.uuid)
      this.#known.set(guest.uuid, guest)
      return this.#change((index) => index.planAttach(guest))
    })
    await this.#purge()
  }

  async detach(guest: GuestNetwork): Promise<void> {
    await this.#inTurn(`detach ${guest.device}`, async () => {
      this.#detached.add(guest.uuid)
      this.#known.delete(guest.uuid)
      await this.#change((index) => index.planDetach(guest))
      this.#stale.add({ addresses: [guest.ipv4], mappings: [], newDatagramPorts: [] })
    })
    // Nobody waits for it but the next attach, which may be of a new owner.
    this.#purge().catch(() => undefined)
  }

  onForeignChange(listener: () => void): void {
    let waiting: NodeJS.Timeout | undefined
    const settle = (): void => {
      this.#disturbed = true
      waiting ??= setTimeout(() => ((waiting = undefined), listener()), settleMs).unref()
    }
    this.#monitor?.close()
    this.#monitor = new NftMonitor(this.config.table, (pid) => this.#nft.isOwn(pid), settle)
  }

  remove(): Promise<void> {
    return this.#inTurn('remove the network', async () => {
      await this.#tables.remove()
      if (await this.#ip.findInterface(this.config.bridge))
        await this.#ip.run([`link delete dev ${this.config.bridge}`])
      await this.#end()
    })
  }

  close(): Promise<void> {
    return this.#inTurn('close the network', () => this.#end())
  }

  async #change(planOn: (index: ElementIndex) => ElementChange): Promise<void> {
    this.#stale.add(await this.#tables.change(planOn, [...this.#known.values()]))
  }

  /** Once: an earlier agent may have ended between a guest's elements and its flows. */
  async #findAbandonedFlows(guests: readonly GuestNetwork[]): Promise<void> {
    if (this.#flowsChecked) return
    const { first, last } = this.subnet
    const owned = new Set(guests.map(({ ipv4 }) => ipv4))
    const tracked = [...(await readTrackedAddresses())].filter((address) => {
      const value = parseIpv4(address) ?? 0
      return value >= first && value <= last && !owned.has(address)
    })
    this.#stale.add({ addresses: tracked, mappings: [], newDatagramPorts: [] })
    this.#flowsChecked = true
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
    const undisturbed = this.#monitor && !this.#disturbed && now - this.#readAtMs < fullReadMs
    if (undisturbed) return this.#tables.adapt(guests)
    this.#disturbed = false
    try {
      const result = await this.#tables.ensure(guests)
      this.#readAtMs = now
      return result
    } catch (cause) {
      this.#disturbed = true
      throw cause
    }
  }

  #withoutDetached(journaled: readonly GuestNetwork[]): GuestNetwork[] {
    const uuids = new Set(journaled.map(({ uuid }) => uuid))
    for (const uuid of this.#detached) if (!uuids.has(uuid)) this.#detached.delete(uuid)
    return journaled.filter(({ uuid }) => !this.#detached.has(uuid))
  }

  async #end(): Promise<void> {
    this.#monitor?.close()
    await Promise.all([this.#nft.close(), this.#ip.close()])
  }

  #inTurn<T>(step: string, work: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(work).catch((cause: unknown) => {
      throw toBerthError(cause, step)
    })
    this.#queue = result.catch(() => undefined)
    return result
  }
}
