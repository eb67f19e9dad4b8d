import { toBerthError } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { readHostIpv4 } from '../host/addresses.js'
import { Ip } from '../host/ip.js'
import { Nft } from '../host/nft.js'
import type { GuestNetwork, Network } from './contract.js'
import { ensureBridge, ensureSysctls } from './ensure.js'
import type { ElementIndex } from './element-index.js'
import type { ElementChange } from './plan-guest.js'
import type { StaleFlows } from './plan-purge.js'
import { purgeStaleFlows } from './purge.js'
import { parseSubnet, type Subnet } from './subnet.js'
import { Tables } from './tables.js'

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

  async ensure(guests: readonly GuestNetwork[]): Promise<string[]> {
    const { repairs, stale } = await this.#inTurn('ensure the network', async () => {
      this.#known = new Map(guests.map((guest) => [guest.uuid, guest]))
      // The tables come before the bridge: no guest is ever on it without them.
      const { repairs, stale } = await this.#tables.ensure(guests)
      const bridge = await ensureBridge(this.#ip, this.config.bridge, this.subnet)
      const sysctls = await ensureSysctls(this.config.bridge)
      return { repairs: [...repairs, ...bridge, ...sysctls], stale }
    })
    await this.#purge(stale)
    return repairs
  }

  async attach(guest: GuestNetwork): Promise<void> {
    const stale = await this.#inTurn(`attach ${guest.device}`, () => {
      this.#known.set(guest.uuid, guest)
      return this.#change((index) => index.planAttach(guest))
    })
    await this.#purge(stale)
  }

  async detach(guest: GuestNetwork): Promise<void> {
    const stale = await this.#inTurn(`detach ${guest.device}`, () => {
      this.#known.delete(guest.uuid)
      return this.#change((index) => index.planDetach(guest))
    })
    // An earlier attempt may have ended between the elements and their flows.
    const addresses = new Set([...stale.addresses, guest.ipv4])
    await this.#purge({ ...stale, addresses: [...addresses] })
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

  #change(planOn: (index: ElementIndex) => ElementChange): Promise<StaleFlows> {
    return this.#tables.change(planOn, [...this.#known.values()])
  }

  async #purge(stale: StaleFlows): Promise<void> {
    try {
      await purgeStaleFlows(stale, readHostIpv4())
    } catch (cause) {
      throw toBerthError(cause, 'forget flows of earlier owners')
    }
  }

  async #end(): Promise<void> {
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
