import type { Qdisc } from '../../host/net/tc.js'
import type { GuestRates } from '../contract.js'

/*
 * Downloads pass an HTB at the root of the guest's host-side interface. Uploads are first redirected to the guest's own
 * intermediate device (IFB) and pass an HTB there. They then return as if they had just arrived (ifb(8)), so that the
 * bridge's filters still see the guest's interface. Each guest has its own class in each direction, so guests cannot
 * take bandwidth from one another.
 */
const download = { handle: 'd0', class: 'd0:1' }
const upload = { handle: 'd1', class: 'd1:1' }
const leafHandle = 'd2'
const ingressHook = 'ffff:fff1'

/** Rate that stands for a class with wrong settings. No guest has this rate, so the class is always replaced. */
const other = -1

/** Returns the name of a guest's IFB. It ends in a letter, unlike guests' own interfaces. */
export function ifbOf(device: string): string {
  return `${device}u`
}

export function ifbPattern(interfacePrefix: string): RegExp {
  return new RegExp(`^${interfacePrefix}\\d{1,10}u$`)
}

/** State of one guest's shaping on the host. Rates are in kbit/s as tc shows them; undefined means no rate. */
export interface ObservedShaping {
  readonly downKbit: number | undefined
  readonly upKbit: number | undefined
  /** Redirection of packets from the guest: to no device (`none`), to the guest's IFB, or to another device. */
  readonly redirect: 'none' | 'ifb' | 'elsewhere'
  readonly ifb: 'absent' | 'down' | 'up'
}

/** Commands to run, in the order of the fields. */
export interface ShapingPlan {
  /** Commands for ip(8), to run first. */
  readonly links: readonly string[]
  readonly tc: readonly string[]
  /** Commands for ip(8) that remove links, to run last. */
  readonly unlinks: readonly string[]
}

/** Plans the change to a guest's rates. All lists are empty if nothing differs. An interrupted plan can be repeated. */
export function planShaping({ device, downMbps, upMbps }: GuestRates, have: ObservedShaping): ShapingPlan {
  const ifb = ifbOf(device)
  const down = planDirection(device, download, { mbps: downMbps, haveKbit: have.downKbit })
  if (upMbps === 0)
    return {
      links: [],
      tc: [...down, ...(have.redirect === 'none' ? [] : [`qdisc delete dev ${device} ingress`])],
      unlinks: have.ifb === 'absent' ? [] : [`link delete dev ${ifb}`],
    }
  const up = planDirection(ifb, upload, { mbps: upMbps, haveKbit: have.upKbit })
  return { links: planIfb(ifb, have.ifb), tc: [...down, ...up, ...planRedirect(device, have)], unlinks: [] }
}

/**
 * Plans the state of a guest's host-side interface. The interface is down while the guest is cut off, and the guest
 * cannot change this.
 * @returns commands of ip(8)
 */
export function planLink({ device, cut = false }: GuestRates, isUp: boolean): string[] {
  return isUp === !cut ? [] : [`link set dev ${device} ${cut ? 'down' : 'up'}`]
}

/** Returns a set with two texts for each qdisc: "DEVICE HANDLE" and "DEVICE below PARENT". */
export function placesOf(qdiscs: readonly Qdisc[]): ReadonlySet<string> {
  return new Set(qdiscs.flatMap(({ dev, handle, parent }) => [`${dev} ${handle}`, `${dev} below ${parent}`]))
}

/** True if a guest has exactly the qdiscs that its rates need. @param places result of `placesOf` */
export function isShaped(guest: GuestRates, places: ReadonlySet<string>): boolean {
  const has = (dev: string, { handle, class: leaf }: typeof download): boolean =>
    places.has(`${dev} ${handle}:`) && places.has(`${dev} below ${leaf}`)
  const ingress = places.has(`${guest.device} below ${ingressHook}`)
  return (
    has(guest.device, download) === guest.downMbps > 0 &&
    has(ifbOf(guest.device), upload) === guest.upMbps > 0 &&
    ingress === guest.upMbps > 0
  )
}

/**
 * Parses tc's output about one guest.
 * @param text outputs in any order: `class show` for its interface and its IFB, and `filter show … ingress` as JSON
 */
export function parseShaping(device: string, text: string): Omit<ObservedShaping, 'ifb'> {
  const lines = text.split('\n')
  const filters = lines.filter((line) => line.startsWith('[')).flatMap((line) => JSON.parse(line) as Filter[])
  const targets = filters.flatMap((filter) => filter.options?.actions ?? []).map(({ to_dev }) => to_dev)
  const right = targets.length === 1 && targets[0] === ifbOf(device)
  return {
    downKbit: parseClass(lines, download.class),
    upKbit: parseClass(lines, upload.class),
    redirect: filters.length === 0 ? 'none' : right ? 'ifb' : 'elsewhere',
  }
}

interface Filter {
  readonly options?: { readonly actions?: readonly { readonly to_dev?: string }[] }
}

/** Parses a class's rate in kbit/s. Requires the word `leaf`, because tc prints it only for a class with a queue. */
function parseClass(lines: readonly string[], id: string): number | undefined {
  const line = lines.find((text) => text.startsWith(`class htb ${id} `))
  if (line === undefined) return undefined
  const [, rate, rateUnit, ceil, ceilUnit] =
    / leaf \S+ prio \d+ rate (\d+)([KMG]?)bit ceil (\d+)([KMG]?)bit /.exec(line) ?? []
  const same = rate !== undefined && rate === ceil && rateUnit === ceilUnit
  return same ? Number(rate) * (kbitOfUnit[rateUnit ?? ''] ?? NaN) : other
}

const kbitOfUnit: Readonly<Record<string, number>> = { '': 0.001, K: 1, M: 1000, G: 1_000_000 }

interface Direction {
  readonly mbps: number
  readonly haveKbit: number | undefined
}

/**
 * Plans the commands for one direction. A change of settings writes the rate last, so a correct rate shows that all
 * settings of the class are correct.
 */
function planDirection(dev: string, at: typeof download, { mbps, haveKbit }: Direction): string[] {
  const kbit = kbitOf(mbps)
  if (mbps === 0) return haveKbit === undefined ? [] : [`qdisc delete dev ${dev} root`]
  if (haveKbit === kbit) return []
  const bytesPerSec = kbit * 125
  const burst = Math.max(minBurstBytes, Math.round(bytesPerSec * burstSeconds))
  const limit = Math.max(minQueueBytes, Math.round(bytesPerSec * queueSeconds))
  const rate = `rate ${kbit}kbit ceil ${kbit}kbit burst ${burst}b cburst ${burst}b quantum ${quantumBytes}`
  const setClass = `class replace dev ${dev} parent ${at.handle}: classid ${at.class} htb ${rate}`
  const setQueue = `qdisc replace dev ${dev} parent ${at.class} handle ${leafHandle}: bfifo limit ${limit}b`
  if (haveKbit !== undefined && haveKbit !== other) return [setQueue, setClass]
  // A qdisc `htb` cannot directly replace another `htb`. Therefore a `pfifo` replaces the old one first.
  return [
    `qdisc replace dev ${dev} root pfifo limit 1000`,
    `qdisc replace dev ${dev} root handle ${at.handle}: htb default 1`,
    setClass,
    setQueue,
  ]
}

function planIfb(ifb: string, have: ObservedShaping['ifb']): string[] {
  if (have === 'up') return []
  return [...(have === 'absent' ? [`link add name ${ifb} type ifb`] : []), `link set dev ${ifb} up`]
}

function planRedirect(device: string, { redirect, ifb }: ObservedShaping): string[] {
  if (redirect === 'ifb' && ifb !== 'absent') return []
  const match = 'protocol all prio 1 u32 match u32 0 0'
  return [
    `qdisc replace dev ${device} handle ffff: ingress`,
    ...(redirect === 'none' ? [] : [`filter delete dev ${device} parent ffff:`]),
    `filter add dev ${device} parent ffff: ${match} action mirred egress redirect dev ${ifbOf(device)}`,
  ]
}

/*
 * HTB counts whole frames (1,514 bytes), of which 1,448 bytes are TCP payload over IPv4. The limit is increased by this
 * ratio, so that a download reaches the rate that the customer was sold.
 */
const frameBytes = 1514
const payloadBytes = 1448

/** Converts a rate to kbit/s. Rounds rates from 1 Gbit/s on to whole Mbit/s, because tc prints them rounded. */
function kbitOf(mbps: number): number {
  const kbit = Math.round((mbps * 1000 * frameBytes) / payloadBytes)
  return kbit < 1_000_000 ? kbit : Math.round(kbit / 1000) * 1000
}

/** Burst, as seconds at the full rate. It compensates for timers that fire milliseconds late on a busy host. */
const burstSeconds = 0.01
const minBurstBytes = 16_000
/**
 * Length of the queue, as seconds at the full rate. With a shorter queue, senders that lose whole GSO packets (64 KiB)
 * stay below the rate. A longer queue adds latency, but no throughput.
 */
const queueSeconds = 0.1
const minQueueBytes = 131_072
/** The quantum has no effect on a single class. It is set because the kernel otherwise logs a warning. */
const quantumBytes = 60_000
