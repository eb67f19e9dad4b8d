import { BerthError } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import { Ip } from '../../host/ip.js'
import { isUp, readFlags, readInterfaces } from '../../host/interfaces.js'
import { CommandError } from '../../host/process.js'
import type { NetlinkWatch } from '../../host/netlink-watch.js'
import { Tc } from '../../host/tc.js'
import type { GuestRates, Shaper } from '../contract.js'
import { Drift } from '../drift.js'
import { Gathered } from '../gathered.js'
import { InTurn } from '../in-turn.js'
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

/** An interface went away, or ip and tc remembered one that did: worth one more look. */
const gone = /No such device|Cannot find device|does not exist/
/** Where changes are watched, `ensure` compares rates that often all the same. */
const thoroughMs = 60_000

/** Notices of one interface come together. */
const settleMs = 100

/** Rates on the host's interfaces. An interface comes and goes with the run of its guest, and its rates with it. */
export interface HostShaper extends Shaper {
  /** What there is of every guest's, without knowing them; interfaces of guests that run keep their download rate. */
  removeAll(): Promise<void>
}

/**
 * @param interfacePrefix of guests' host-side interfaces; nothing else on the host is touched
 * @param watch tells what others change; without it every comparison is of all
 */
export function createShaper(interfacePrefix: string, watch?: NetlinkWatch): HostShaper {
  return new TcShaper(interfacePrefix, watch)
}

class TcShaper implements HostShaper {
  readonly #tc = new Tc()
  readonly #ip = new Ip()
  readonly #ifbs: RegExp
  readonly #devices: RegExp
  /** Of the rates themselves from what they were at the last comparison. */
  readonly #drift: Drift
  /** Guests whose rates were right last, no interface having come or gone since. */
  #settled: readonly GuestRates[] | undefined
  #onLinks: (() => void) | undefined
  readonly #settling = new Gathered(settleMs, () => this.#onLinks?.())
  readonly #turns = new InTurn()

  constructor(interfacePrefix: string, watch: NetlinkWatch | undefined) {
    this.#drift = new Drift(watch ? thoroughMs : 0)
    watch?.onChange('rates', () => this.#drift.note())
    watch?.onChange('links', () => this.#noteLinks())
    this.#ifbs = ifbPattern(interfacePrefix)
    this.#devices = new RegExp(`^${interfacePrefix}\\d{1,10}$`)
  }

  ensure(guests: readonly GuestRates[]): Promise<string[]> {
    return this.#turns.run('ensure rates', async () => {
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
    })
  }

  apply(guest: GuestRates): Promise<void> {
    return this.#turns.run(`rates of ${guest.device}`, async () => {
      if (readFlags(guest.device) === undefined) return
      try {
        await this.#converge(guest)
      } catch (error) {
        this.#drift.note() // half of it may be done
        throw error
      }
    })
  }

  remove(device: string): Promise<void> {
    return this.#turns.run(`remove the rates of ${device}`, () => this.#removeIfbs([ifbOf(device)]))
  }

  removeAll(): Promise<void> {
    return this.#turns.run('remove all rates', () => this.#removeIfbs(this.#strayIfbs(readInterfaces(), [])))
  }

  onLinks(listener: () => void): void {
    this.#onLinks = listener
  }

  #noteLinks(): void {
    this.#settled = undefined
    this.#settling.ask()
  }

  async close(): Promise<void> {
    this.#settling.cancel()
    this.#onLinks = undefined
    await this.#turns.settled()
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

  /** Guests whose rates are not there or, if thorough, may be others. */
  async #findSuspects(present: readonly GuestRates[], thorough: boolean): Promise<readonly GuestRates[]> {
    if (present.length === 0) return []
    const places = placesOf(await this.#tc.listQdiscs())
    const differs = (guest: GuestRates): boolean =>
      !isShaped(guest, places) || planLinkOf(guest).length > 0 || lacksUpload(guest)
    return present.filter((guest) => (thorough && isLimited(guest)) || differs(guest))
  }

  /** One that fails does not keep the others from their rates. */
  async #convergeAll(guests: readonly GuestRates[]): Promise<string[]> {
    const repairs: string[] = []
    const failures: unknown[] = []
    for (const guest of guests) {
      try {
        if (await this.#converge(guest)) repairs.push(`rates of ${guest.device} set anew`)
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
    return repairs
  }

  /** @returns whether anything had to be done */
  async #converge(guest: GuestRates): Promise<boolean> {
    this.#check(guest)
    try {
      return await this.#convergeOnce(guest)
    } catch (error) {
      if (!isGone(error)) throw error
      await this.#ip.close()
      return readFlags(guest.device) !== undefined && this.#convergeOnce(guest)
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
        await this.#ip.close() // its memory of names is old: the next call has a new one
        if (readFlags(name) !== undefined) await this.#ip.run([`link delete dev ${name}`])
      }
    }
  }

  #check({ device, downMbps, upMbps }: GuestRates): void {
    const { min, max } = limits.networkMbps
    const isRate = (mbps: number): boolean => Number.isInteger(mbps) && mbps >= min && mbps <= max
    if (!this.#devices.test(device) || !isRate(downMbps) || !isRate(upMbps))
      throw new BerthError('internal', 'internal_error', `rates out of their rules: ${device}`)
  }
}

function isGone(error: unknown): boolean {
  return error instanceof CommandError && gone.test(error.stderr)
}

function isLimited({ downMbps, upMbps, cut = false }: GuestRates): boolean {
  return downMbps > 0 || upMbps > 0 || cut
}

/** An interface that is gone needs nothing. */
function planLinkOf(guest: GuestRates): string[] {
  const flags = readFlags(guest.device)
  return flags === undefined ? [] : planLink(guest, isUp(flags))
}

/** What it sends passes an interface that is down, or not there. */
function lacksUpload({ device, upMbps }: GuestRates): boolean {
  return upMbps > 0 && !isUp(readFlags(ifbOf(device)) ?? '0')
}
