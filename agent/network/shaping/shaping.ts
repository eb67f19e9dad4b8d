import { Throttle } from '../../../shared/async/throttle.js'
import { asStep, BerthError } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import { Ip } from '../../host/net/ip.js'
import { isUp, readFlags, readInterfaces } from '../../host/net/interfaces.js'
import { CommandError } from '../../host/process/process.js'
import type { NetlinkWatch } from '../../host/net/netlink-watch.js'
import { Tc } from '../../host/net/tc.js'
import type { GuestRates, Shaper } from '../contract.js'
import { Drift } from '../drift.js'
import { Mutex } from '../../../shared/async/mutex.js'
import {
  ifbOf,
  ifbPattern,
  isShaped,
  parseShaping,
  placesOf,
  planLink,
  planShaping,
  type ObservedShaping,
} from './plan.js'

/** Matches errors about an interface that is gone or has a new index. The failed command is retried once. */
const gone = /No such device|Cannot find device|does not exist/
/** Interval in ms at which `ensure` compares all rates in full, even if the netlink watch has reported no change. */
const thoroughMs = 60_000

/** Time in ms for which notifications about interfaces are collected. */
const settleMs = 100

/** Limits rates of guests' interfaces. An interface, with its rates, exists only while its guest runs. */
export interface HostShaper extends Shaper {
  /** Removes the IFBs, which limit the uploads of guests. Limits of downloads stay. Does not need the journal. */
  removeAll(): Promise<void>
}

/**
 * @param interfacePrefix prefix of guests' host-side interfaces. All other interfaces stay unchanged
 * @param watch reports changes by other programs. If omitted, every comparison reads all rates
 */
export function createShaper(interfacePrefix: string, watch?: NetlinkWatch): HostShaper {
  return new TcShaper(interfacePrefix, watch)
}

class TcShaper implements HostShaper {
  readonly #tc = new Tc()
  readonly #ip = new Ip()
  readonly #ifbs: RegExp
  readonly #devices: RegExp
  /** Knows whether the rates on the host may have changed, so that all of them must be compared again. */
  readonly #drift: Drift
  /** Argument of the last `ensure` that found all rates correct. Undefined after changes of interfaces. */
  #settled: readonly GuestRates[] | undefined
  #onLinks: (() => void) | undefined
  readonly #settling = new Throttle(() => this.#onLinks?.(), { intervalMs: settleMs })
  readonly #mutex = new Mutex()

  constructor(interfacePrefix: string, watch: NetlinkWatch | undefined) {
    this.#drift = new Drift(watch ? thoroughMs : 0)
    watch?.onChange('rates', () => this.#drift.note())
    watch?.onChange('links', () => this.#noteLinks())
    this.#ifbs = ifbPattern(interfacePrefix)
    this.#devices = new RegExp(`^${interfacePrefix}\\d{1,10}$`)
  }

  ensure(guests: readonly GuestRates[]): Promise<string[]> {
    return this.#mutex.run(
      asStep('set the network rates of guests', async () => {
        const thorough = this.#drift.isDue
        if (!thorough && guests === this.#settled) return []
        this.#settled = guests
        const compare = (): Promise<string[]> => this.#compare(guests, thorough)
        try {
          return await (thorough ? this.#drift.look(compare) : compare())
        } catch (error) {
          this.#settled = undefined
          throw error
        }
      }),
    )
  }

  apply(guest: GuestRates): Promise<void> {
    return this.#mutex.run(
      asStep(`set the network rates of the guest at ${guest.device}`, async () => {
        if (readFlags(guest.device) === undefined) return
        try {
          await this.#converge(guest)
        } catch (error) {
          this.#drift.note() // part of the change may have been applied before this failure
          throw error
        }
      }),
    )
  }

  remove(device: string): Promise<void> {
    return this.#mutex.run(
      asStep(`remove the network rates of the guest at ${device}`, () => this.#removeIfbs([ifbOf(device)])),
    )
  }

  removeAll(): Promise<void> {
    return this.#mutex.run(
      asStep('remove the network rates of all guests', () => this.#removeIfbs(this.#strayIfbs(readInterfaces(), []))),
    )
  }

  onLinks(listener: () => void): void {
    this.#onLinks = listener
  }

  #noteLinks(): void {
    this.#settled = undefined
    this.#settling.request()
  }

  async close(): Promise<void> {
    this.#settling.close()
    this.#onLinks = undefined
    await this.#mutex.settled()
    await Promise.all([this.#tc.close(), this.#ip.close()])
  }

  async #compare(guests: readonly GuestRates[], thorough: boolean): Promise<string[]> {
    const names = readInterfaces()
    const present = guests.filter(({ device }) => names.has(device))
    const strays = this.#strayIfbs(names, present)
    await this.#removeIfbs(strays)
    const mended = await this.#convergeAll(await this.#findSuspects(present, thorough))
    return [...strays.map((ifb) => `${ifb} removed`), ...mended]
  }

  /** Finds guests that lack shaping. `thorough` adds all guests with limits, because their rates can be wrong. */
  async #findSuspects(present: readonly GuestRates[], thorough: boolean): Promise<readonly GuestRates[]> {
    if (present.length === 0) return []
    const places = placesOf(await this.#tc.listQdiscs())
    const differs = (guest: GuestRates): boolean =>
      !isShaped(guest, places) || planLinkOf(guest).length > 0 || lacksUpload(guest)
    return present.filter((guest) => (thorough && isLimited(guest)) || differs(guest))
  }

  /** Repairs the rates of all these guests, even if the repair of one guest fails. */
  async #convergeAll(guests: readonly GuestRates[]): Promise<string[]> {
    const repairs: string[] = []
    const failures: unknown[] = []
    for (const guest of guests) {
      try {
        if (await this.#converge(guest)) repairs.push(`rates of ${guest.device} set again`)
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
    return repairs
  }

  /** Repairs one guest's rates. @returns true if anything was changed */
  async #converge(guest: GuestRates): Promise<boolean> {
    this.#check(guest)
    try {
      return await this.#convergeOnce(guest)
    } catch (error) {
      if (!isGone(error)) throw error
      await this.#ip.close()
      if (readFlags(guest.device) === undefined) return false
      return this.#convergeOnce(guest).catch((second: unknown) => {
        if (isGone(second) && readFlags(guest.device) === undefined) return false
        throw second
      })
    }
  }

  async #convergeOnce(guest: GuestRates): Promise<boolean> {
    const link = planLinkOf(guest)
    await this.#ip.run(link)
    const { links, tc, unlinks } = planShaping(guest, await this.#observe(guest.device))
    await this.#ip.run(links)
    await this.#tc.run(tc)
    await this.#ip.run(unlinks)
    return link.length + links.length + tc.length + unlinks.length > 0
  }

  async #observe(device: string): Promise<ObservedShaping> {
    const ifb = ifbOf(device)
    const flags = readFlags(ifb)
    const devices = flags === undefined ? [device] : [device, ifb]
    const text = await this.#tc.readClasses(devices, device)
    return {
      ...parseShaping(device, text),
      ifb: flags === undefined ? 'absent' : isUp(flags) ? 'up' : 'down',
    }
  }

  #strayIfbs(names: ReadonlySet<string>, present: readonly GuestRates[]): string[] {
    const wanted = new Set(present.map(({ device }) => ifbOf(device)))
    return [...names].filter((name) => this.#ifbs.test(name) && !wanted.has(name))
  }

  async #removeIfbs(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (readFlags(name) === undefined) continue
      try {
        await this.#ip.run([`link delete dev ${name}`])
      } catch (error) {
        if (!isGone(error)) throw error
        await this.#ip.close() // ip may have cached an old interface; a new ip process reads it again
        if (readFlags(name) !== undefined) await this.#ip.remove([`link delete dev ${name}`])
      }
    }
  }

  #check({ device, downMbps, upMbps }: GuestRates): void {
    const { min, max } = limits.networkMbps
    const isRate = (mbps: number): boolean => Number.isInteger(mbps) && mbps >= min && mbps <= max
    if (!this.#devices.test(device) || !isRate(downMbps) || !isRate(upMbps))
      throw new BerthError('internal', 'internal_error', `the rates of interface ${device} are not valid`)
  }
}

function isGone(error: unknown): boolean {
  return error instanceof CommandError && gone.test(error.stderr)
}

function isLimited({ downMbps, upMbps, cut = false }: GuestRates): boolean {
  return downMbps > 0 || upMbps > 0 || cut
}

/** Plans commands that set a guest's interface up or down. [] if its state is correct, or if it does not exist. */
function planLinkOf(guest: GuestRates): string[] {
  const flags = readFlags(guest.device)
  return flags === undefined ? [] : planLink(guest, isUp(flags))
}

/** True if a guest cannot send because its IFB is down or missing. Only guests with an upload rate need an IFB. */
function lacksUpload({ device, upMbps }: GuestRates): boolean {
  return upMbps > 0 && !isUp(readFlags(ifbOf(device)) ?? '0')
}
