import { announceIpv4 } from '../../host/arping.js'
import { Ip } from '../../host/ip.js'
import type { NetlinkWatch } from '../../host/netlink-watch.js'
import { ensureBridge, ensurePorts, ensureSysctls, isBroken } from './ensure.js'
import type { Subnet } from '../subnet.js'

/** Where changes are watched, `ensure` reads the bridge that often all the same. */
const fullReadMs = 60_000
/** Interfaces come and go several at once, as guests do. */
const settleMs = 500

export interface BridgeOptions {
  readonly name: string
  readonly subnet: Subnet
  /** Host-side interfaces of all guests, there or not. */
  readonly devices: () => readonly string[]
  /** Tells what others change; without it everything is read each time. */
  readonly watch: NetlinkWatch | undefined
  /** Guests that run are not on the bridge, or it is gone or down: `ensure` need not wait for its turn. */
  readonly onBroken: () => void
}

/** The bridge, the kernel's settings for it, and guests' places on it. Callers run one call at a time. */
export class Bridge {
  readonly #ip = new Ip()
  /** Set when an interface was changed since it was last read. */
  #disturbed = true
  #readAtMs = 0
  #settling: NodeJS.Timeout | undefined
  readonly #ended = new AbortController()

  constructor(private readonly options: BridgeOptions) {
    options.watch?.onChange('links', () => this.#noteChange())
  }

  /** Returns what was wrong. The kernel's settings are looked at each time, and stand before a guest is on it. */
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
    if (await this.#ip.findInterface(name)) await this.#ip.run([`link delete dev ${name}`])
  }

  /** Ends the pipe; the host keeps the bridge. */
  close(): Promise<void> {
    this.#ended.abort()
    clearTimeout(this.#settling)
    return this.#ip.close()
  }

  /** Off the bridge a guest may have learnt another's mac for it, and would keep to that; without, it does for seconds. */
  #announceGateway(): void {
    const { name, subnet } = this.options
    announceIpv4(name, subnet.gateway, this.#ended.signal, 2).catch(() => undefined)
  }

  #isDisturbed(now: number): boolean {
    return !this.options.watch || this.#disturbed || now - this.#readAtMs >= fullReadMs
  }

  #noteChange(): void {
    const { name, devices, onBroken } = this.options
    this.#disturbed = true
    if (this.#ended.signal.aborted) return
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined
      if (isBroken(name, devices())) onBroken()
    }, settleMs).unref()
  }
}
