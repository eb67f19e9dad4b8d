import { Throttle } from '../../../shared/async/throttle.js'
import { announceIpv4 } from '../../host/net/arping.js'
import { Ip } from '../../host/net/ip.js'
import type { NetlinkWatch } from '../../host/net/netlink-watch.js'
import { ensureBridge, ensurePorts, ensureSysctls, isBroken } from './ensure.js'
import type { Subnet } from '../subnet.js'

/** Interval in ms at which `ensure` reads the bridge although a watch reports changes. */
const fullReadMs = 60_000
/** Guests start and stop several at once: changes within this time are handled together. */
const settleMs = 500

export interface BridgeOptions {
  readonly name: string
  readonly subnet: Subnet
  /** Host-side interfaces of all guests, whether they exist or not. */
  readonly devices: () => readonly string[]
  /** Reports changes of interfaces; undefined: each `ensure` reads everything. */
  readonly watch: NetlinkWatch | undefined
  /** Called if a running guest is off the bridge, or the bridge is missing or down, so that `ensure` runs early. */
  readonly onBroken: () => void
}

/** Maintains the bridge, its kernel settings and guests' ports. Callers make one call at a time. */
export class Bridge {
  readonly #ip = new Ip()
  /** Set when an interface changed since the last read. */
  #disturbed = true
  #readAtMs = 0
  readonly #settling = new Throttle(() => this.#reportIfBroken(), { intervalMs: settleMs })
  readonly #ended = new AbortController()

  constructor(private readonly options: BridgeOptions) {
    options.watch?.onChange('links', () => this.#noteChange())
  }

  /**
   * Converges the bridge. Kernel settings are checked each time, before a guest joins the bridge.
   * @returns the repairs
   */
  async ensure(): Promise<string[]> {
    const { name, subnet, devices } = this.options
    const now = performance.now()
    if (!this.#isDisturbed(now)) return ensureSysctls(name)
    this.#disturbed = false
    try {
      const repairs = await ensureBridge(this.#ip, name, subnet)
      repairs.push(...(await ensureSysctls(name)))
      const ports = await ensurePorts(this.#ip, name, devices())
      if (ports.length > 0) this.#announceGateway()
      this.#readAtMs = now
      return [...repairs, ...ports]
    } catch (cause) {
      this.#disturbed = true
      throw cause
    }
  }

  async remove(): Promise<void> {
    const { name } = this.options
    if (await this.#ip.findInterface(name)) await this.#ip.remove([`link delete dev ${name}`])
  }

  /** Ends the ip process; the host keeps the bridge. */
  close(): Promise<void> {
    this.#ended.abort()
    this.#settling.close()
    return this.#ip.close()
  }

  /**
   * A guest that was off the bridge may have learnt a wrong MAC for the gateway and keep it; an announcement corrects
   * that.
   */
  #announceGateway(): void {
    const { name, subnet } = this.options
    announceIpv4(name, subnet.gateway, this.#ended.signal, 2).catch(() => undefined)
  }

  #isDisturbed(now: number): boolean {
    return !this.options.watch || this.#disturbed || now - this.#readAtMs >= fullReadMs
  }

  #noteChange(): void {
    this.#disturbed = true
    this.#settling.request()
  }

  #reportIfBroken(): void {
    const { name, devices, onBroken } = this.options
    if (isBroken(name, devices())) onBroken()
  }
}
