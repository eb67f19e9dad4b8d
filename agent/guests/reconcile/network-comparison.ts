import { Coalescer } from '../../../shared/async/coalescer.js'
import type { NetworkPart, WantedNetwork } from '../../network/contract.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { networkOf } from '../resources/network.js'
import { guardComparison } from './guard.js'
import { LostInterfaces } from './lost-interfaces.js'

/** Interval of comparisons in ms. With this interval, changes by other programs are repaired within 5 s. */
const everyMs = 3000

/** Compares the host's network with the recorded guests at intervals, and right after changes by other programs. */
export class NetworkComparison {
  readonly #all = new Coalescer(() => this.#compareAll())
  readonly #rates = new Coalescer(() => this.#compareRates())
  readonly #interfaces: LostInterfaces
  #timer: NodeJS.Timeout | undefined
  #repairs = 0

  /** Network settings of all guests, cached until a guest changes. */
  #planned: { readonly records: readonly GuestRecord[]; readonly networks: readonly WantedNetwork[] } = {
    records: [],
    networks: [],
  }

  constructor(
    private readonly context: GuestContext,
    isBusy: (uuid: string) => boolean,
  ) {
    this.#interfaces = new LostInterfaces(context, isBusy)
  }

  /** Number of differences that were repaired since the agent started. */
  get repairs(): number {
    return this.#repairs
  }

  get warnings(): readonly string[] {
    return this.#interfaces.warnings
  }

  listen(): void {
    const { network, log } = this.context
    network.onDisturbed((part) =>
      part === 'rates'
        ? void guardComparison(log, 'rates', () => this.#rates.run())
        : void guardComparison(log, 'network', () => this.compare()),
    )
  }

  start(): void {
    this.#timer = setInterval(() => void guardComparison(this.context.log, 'network', () => this.compare()), everyMs)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all([this.#all.settled(), this.#rates.settled()])
  }

  /** Makes the given parts of the network match the recorded guests. @throws {BerthError} the host's first error */
  async ensure(parts: readonly NetworkPart[]): Promise<void> {
    // While the start gate is closed after a boot, another host may use guests' addresses. These are added later.
    const isGated = (this.context.startGate?.leftMs ?? 0) > 0
    const now = isGated ? parts.filter((part) => part !== 'addresses') : parts
    this.#noteRepairs(await this.context.network.ensure(this.#plan(), now))
  }

  /**
   * Makes the host's network match the recorded guests, by a comparison that begins after this call.
   * @throws {BerthError} the first error of the host
   */
  compare(): Promise<void> {
    return this.#all.run()
  }

  /** Compares the network. Lost interfaces are created after the rules are set, and before the rates are set. */
  async #compareAll(): Promise<void> {
    await this.ensure(['rules'])
    this.#noteRepairs(await this.#interfaces.ensure())
    await this.ensure(['addresses', 'rates'])
  }

  /** Called after interfaces were added or removed. Creates interfaces that running guests lost, and sets rates. */
  async #compareRates(): Promise<void> {
    this.#noteRepairs(await this.#interfaces.ensure())
    await this.ensure(['rates'])
  }

  #plan(): readonly WantedNetwork[] {
    const records = this.context.store.list()
    if (records !== this.#planned.records)
      this.#planned = { records, networks: records.map((record) => networkOf(record, this.context.config)) }
    return this.#planned.networks
  }

  #noteRepairs(repaired: readonly string[]): void {
    this.#repairs += repaired.length
    if (repaired.length > 0) this.context.log.warn({ repaired }, 'the network of the host was repaired')
  }
}
