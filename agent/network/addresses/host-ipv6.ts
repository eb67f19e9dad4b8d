import type { Logger } from 'pino'
import type { Ip } from '../../host/net/ip.js'
import { isBridgePort } from '../../host/net/interfaces.js'
import { listDirectory } from '../../host/process/proc.js'
import { releaseSysctls } from '../../host/kernel/sysctl-change.js'
import { findSysctl } from '../../host/kernel/sysctl.js'
import { ensureSysctl } from '../bridge/ensure.js'
import type { ObservedInterface } from './host-ipv4.js'
import { Ipv6Announcements } from './ipv6-announcements.js'
import {
  isUnusedSetting,
  planGateway6,
  planGuestIpv6,
  planGuestIpv6Removal,
  planHostIpv6,
  planIpv6Settings,
  planProxyRemoval,
  type GuestIpv6,
  type Ipv6HostPlace,
  type ObservedIpv6,
} from './plan-host.js'
import { runEach } from './run-each.js'

interface ShownRoute {
  readonly dst: string
}
interface ShownNeighbour {
  readonly dst: string
  readonly dev?: string
  readonly lladdr?: string
  /** For a proxy entry: the number of the program that added it (`proto` in ip-neighbour(8)). Otherwise undefined. */
  readonly protocol?: string
}

/** Maintains the routes, neighbours and proxy entries for guests' IPv6 addresses. */
export class HostIpv6 {
  /**
   * State of IPv6 at the last `#release`: `none` (no guest has an address), or `some` and the proxied interfaces. While
   * this state stays the same, `#release` does nothing. Undefined: `#release` must search again.
   */
  #released: string | undefined
  readonly #announcements: Ipv6Announcements

  constructor(
    private readonly ip: Ip,
    private readonly place: Ipv6HostPlace,
    log: Logger,
  ) {
    this.#announcements = new Ipv6Announcements({ log })
  }

  /**
   * Configures the host for exactly these addresses. Changes kernel settings when the first guest needs them. Restores
   * the settings when no guest needs them any more.
   * @returns the changes
   */
  async ensure(want: readonly GuestIpv6[]): Promise<string[]> {
    const repairs = want.length > 0 ? await this.#ensureSettings(want) : []
    await this.#refreshDevices(want)
    const have = await this.#read()
    this.#announcements.replace(want.filter(({ address, proxyOn }) => have.proxies.has(`${address} ${proxyOn}`)))
    const commands = planHostIpv6(want, have, this.place)
    await runEach(this.ip, commands).finally(() => this.#announcements.add(want))
    return [...repairs, ...commands.map((command) => `ip ${command}`), ...(await this.#release(want))]
  }

  /** Adds these addresses and leaves all others unchanged. */
  async add(want: readonly GuestIpv6[]): Promise<void> {
    if (want.length === 0) return
    this.#released = undefined
    await this.#ensureSettings(want)
    await this.#refreshDevices(want)
    await runEach(
      this.ip,
      want.flatMap((item) => planGuestIpv6(item, this.place)),
    ).finally(() => this.#announcements.add(want))
  }

  async remove(those: readonly GuestIpv6[]): Promise<void> {
    if (those.length === 0) return
    await this.#announcements.forget(those.map(({ address }) => address))
    await this.#refreshDevices(those)
    await this.ip.remove(those.flatMap((item) => planGuestIpv6Removal(item, this.place)))
  }

  /** Removes every proxy entry of this agent. Routes and neighbours disappear with the bridge. */
  async removeAll(): Promise<void> {
    await this.ip.remove([...(await this.#readProxies())].map(planProxyRemoval))
  }

  close(): void {
    this.#announcements.close()
  }

  /** Makes the ip process, which caches interfaces by name, read the bridge and the proxied interfaces again. */
  async #refreshDevices(of: readonly GuestIpv6[]): Promise<void> {
    const devices = new Set([this.place.bridge, ...of.map(({ proxyOn }) => proxyOn).filter(Boolean)])
    for (const device of devices) await this.ip.findInterface(device)
  }

  /** Restores the original values of kernel settings that guests no longer need. @returns the restored settings */
  async #release(want: readonly GuestIpv6[]): Promise<string[]> {
    const proxied = proxiedOf(want)
    const use = want.length === 0 ? 'none' : ['some', ...proxied].join()
    if (this.#released === use) return []
    const needed = want.length === 0 ? [] : planIpv6Settings(this.place.bridge, { advertised: [], proxied })
    const released = await releaseSysctls((path) => isUnusedSetting(path, needed))
    this.#released = use
    return released.map((path) => `${path.replaceAll('/', '.')}: original value restored`)
  }

  async #ensureSettings(want: readonly GuestIpv6[]): Promise<string[]> {
    const { bridge, isGuestDevice } = this.place
    const proxied = proxiedOf(want)
    const repairs: string[] = []
    for (const setting of planIpv6Settings(bridge, { advertised: listAdvertised(isGuestDevice), proxied }))
      repairs.push(...(await ensureSysctl(setting)))
    const shown = (await this.ip.findInterface(bridge)) as ObservedInterface | undefined
    const commands = planGateway6(bridge, shown?.addr_info ?? [])
    await this.ip.run(commands)
    return [...repairs, ...commands.map((command) => `ip ${command}`)]
  }

  async #read(): Promise<ObservedIpv6> {
    const { bridge, mark } = this.place
    const routes = await this.ip.list(`route show table all dev ${bridge} proto ${mark.protocol}`)
    const neighbours = await this.ip.list(`neighbour show dev ${bridge} nud permanent`)
    return {
      routes: new Set((routes as ShownRoute[]).map(({ dst }) => dst)),
      neighbours: new Map(
        (neighbours as ShownNeighbour[])
          .filter(({ dst }) => dst.includes(':'))
          .map(({ dst, lladdr = '' }) => [dst, lladdr]),
      ),
      proxies: await this.#readProxies(),
    }
  }

  async #readProxies(): Promise<Set<string>> {
    const shown = (await this.ip.list('neighbour show proxy')) as ShownNeighbour[]
    const ours = shown.filter(({ protocol }) => protocol === String(this.place.mark.protocol))
    return new Set(ours.map(({ dst, dev = '' }) => `${dst} ${dev}`))
  }
}

/** Returns the sorted interfaces on which the host answers neighbour solicitations for guests. */
function proxiedOf(want: readonly GuestIpv6[]): string[] {
  return [...new Set(want.map(({ proxyOn }) => proxyOn).filter(Boolean))].sort()
}

/**
 * Lists interfaces that would ignore router advertisements if the host began to forward; [] if it already forwards.
 * Omits bridge ports and guests' interfaces, because they receive no router advertisements.
 */
function listAdvertised(isGuestDevice: (name: string) => boolean): string[] {
  if (findSysctl('net/ipv6/conf/all/forwarding') !== 0) return []
  const devices: string[] = []
  for (const device of listDirectory('/proc/sys/net/ipv6/conf')) {
    if (['all', 'default', 'lo'].includes(device) || isGuestDevice(device) || isBridgePort(device)) continue
    if (findSysctl(`net/ipv6/conf/${device}/accept_ra`) === 1) devices.push(device)
  }
  return devices
}
