import { Throttle } from '../../../shared/async/throttle.js'
import { announceIpv4 } from '../../host/net/arping.js'
import { Ip } from '../../host/net/ip.js'
import type { NetlinkWatch } from '../../host/net/netlink-watch.js'
import { ensureBridge, ensurePorts, ensureSysctls, isBroken } from './ensure.js'
import type { Subnet } from '../subnet.js'

/** Interval in ms at which `ensure` reads the bridge, even if the netlink watch has reported no change. */
const fullReadMs = 60_000
/** Time in ms for which changes of interfaces are collected, because several guests can start at once. */
const settleMs = 500

export interface BridgeOptions {
  readonly name: string
  readonly subnet: Subnet
  /** Names of all guests' host-side interfaces, including those that do not exist at the moment. */
  readonly devices: () => readonly string[]
  /** Reports changes of interfaces. Undefined: each `ensure` reads everything. */
  readonly watch: NetlinkWatch | undefined
  /** Called if the bridge is missing, down, or lacks a running guest's port. The callback should call `ensure` soon. */
  readonly onBroken: () => void
}

/** Maintains the bridge, its kernel settings and its ports for guests. Callers must not call it concurrently. */
export class Bridge {
  readonly #ip = new Ip()
  /** True if an interface may have changed since the last read. */
  #disturbed = true
  #readAtMs = 0
  readonly #settling = new Throttle(() => this.#reportIfBroken(), { intervalMs: settleMs })
  readonly #ended = new AbortController()

  constructor(private readonly options: BridgeOptions) {
    options.watch?.onChange('links', () => this.#noteChange())
  }

  /**
   * Repairs the bridge if necessary. Checks the kernel settings before guests' interfaces are put on the bridge.
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

  /** Announces the bridge's MAC, because a guest that was off the bridge can have a wrong MAC for its gateway. */
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
