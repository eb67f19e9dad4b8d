import { parseAddress } from '../../shared/addresses.js'
import type { IdMap, IdRange } from '../host/disk/copy-tree.js'
import type { ForeignContainer, ForeignMapping, ImportNote } from './contract.js'
import { countProcessors, parseCount, parseSize } from './plan-sizes.js'

/*
 * Reads the configuration of a container of LXD or Incus: the answer of `lxc query /1.0/instances/NAME`, or the file
 * backup.yaml of the container. Both contain the values of profiles in `expanded_config` and `expanded_devices`.
 * Sources: documentation.ubuntu.com/lxd (instance options, device types), linuxcontainers.org/incus.
 */

type Values = Readonly<Record<string, string>>
type Devices = Readonly<Record<string, Values>>

const maxPort = 65_535
const mib = 1024 ** 2
/** Maximum number of ports in a list of a proxy device. */
const maxListed = 100

/** @returns the description; undefined if the value is not the configuration of an instance */
export function planLxd(parsed: unknown): ForeignContainer | undefined {
  const instance = findInstance(parsed)
  if (!instance || typeof instance['name'] !== 'string') return undefined
  const config = valuesOf(instance['expanded_config'] ?? instance['config'])
  const devices = devicesOf(instance['expanded_devices'] ?? instance['devices'])
  const notes: ImportNote[] = []
  const ids = planIds(config, notes)
  const all = Object.entries(devices)
  return {
    name: instance['name'],
    ...planRefusal(instance, ids),
    ...planLimits(config, notes),
    ...planRoot(devices, notes),
    addresses: all.flatMap(([, device]) => (device['type'] === 'nic' ? addressesOf(device) : [])),
    mappings: all.flatMap(([name, device]) => (device['type'] === 'proxy' ? planProxy(name, device, notes) : [])),
    devices: all.flatMap(([name, device]) => planDevice(name, device, notes)),
    ...(typeof ids === 'object' && { ids }),
    notes: [...notes, ...planConfigNotes(config)],
  }
}

/** backup.yaml contains the instance under `container`, or under `instance` in newer versions of LXD. */
function findInstance(parsed: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(parsed)) return undefined
  const inner = parsed['container'] ?? parsed['instance']
  return isRecord(inner) ? inner : parsed
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** LXD stores all values as strings. YAML files that were edited by hand can contain numbers and booleans. */
function valuesOf(value: unknown): Values {
  if (!isRecord(value)) return {}
  const texts = Object.entries(value).flatMap(([key, one]) =>
    ['string', 'number', 'boolean'].includes(typeof one) ? [[key, String(one)]] : [],
  )
  return Object.fromEntries(texts) as Values
}

function devicesOf(value: unknown): Devices {
  if (!isRecord(value)) return {}
  return Object.fromEntries(Object.entries(value).map(([name, device]) => [name, valuesOf(device)]))
}

function planRefusal(
  { type = 'container', status = 'Stopped' }: Readonly<Record<string, unknown>>,
  ids: IdMap | 'invalid' | undefined,
): Pick<ForeignContainer, 'refusal'> {
  if (type === 'virtual-machine') return { refusal: 'it is a virtual machine, and only containers can be imported' }
  if (status !== 'Stopped') return { refusal: 'it is running or paused: stop the container first' }
  if (ids === 'invalid') return { refusal: 'its field volatile.last_state.idmap is not a map of user ids' }
  return {}
}

const idmapKey = 'volatile.last_state.idmap'

/** Reads the map of the ids on the disk. An empty or missing map means that the ids on the disk are not shifted. */
function planIds(config: Values, notes: ImportNote[]): IdMap | 'invalid' | undefined {
  const text = config[idmapKey] ?? ''
  if (text === '') return undefined
  const entries = parseIdmap(text)
  if (!entries) return 'invalid'
  if (entries.length === 0) return undefined
  const users = planRanges(entries.filter(({ Isuid: is }) => is))
  const groups = planRanges(entries.filter(({ Isgid: is }) => is))
  if (users.length === 0 || groups.length === 0) return 'invalid'
  if ([...users, ...groups].some(({ shown, count }) => shown + count > guestIds))
    notes.push({
      part: 'user ids',
      reason: `a guest has the ids 0 to ${guestIds - 1}: the import fails if a file has another id`,
    })
  return { users, groups }
}

const guestIds = 65_536
const maxIdRanges = 340
const maxId = 2 ** 32 - 1

interface IdmapEntry {
  readonly Isuid: boolean
  readonly Isgid: boolean
  readonly Hostid: number
  readonly Nsid: number
  readonly Maprange: number
}

function parseIdmap(text: string): readonly IdmapEntry[] | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    if (parsed === null) return []
    return Array.isArray(parsed) && parsed.length <= maxIdRanges && parsed.every(isIdmapEntry) ? parsed : undefined
  } catch {
    return undefined
  }
}

function isIdmapEntry(value: unknown): value is IdmapEntry {
  if (!isRecord(value)) return false
  const { Isuid, Isgid, Hostid, Nsid, Maprange } = value
  const isId = (id: unknown): id is number => Number.isInteger(id) && (id as number) >= 0 && (id as number) < maxId
  if (typeof Isuid !== 'boolean' || typeof Isgid !== 'boolean') return false
  if (!isId(Hostid) || !isId(Nsid) || !isId(Maprange) || Maprange < 1) return false
  return Hostid + Maprange <= maxId && Nsid + Maprange <= maxId
}

/** Removes repeated ranges, which the kernel refuses. LXD repeats ranges that `raw.idmap` maps for users and groups. */
function planRanges(entries: readonly IdmapEntry[]): IdRange[] {
  const ranges = entries.map(({ Hostid, Nsid, Maprange }) => ({ first: Hostid, shown: Nsid, count: Maprange }))
  return ranges.filter(({ first }, at) => ranges.findIndex((other) => other.first === first) === at)
}

type Limits = Pick<ForeignContainer, 'vcpuMilli' | 'ramMb'>

function planLimits(config: Values, notes: ImportNote[]): Limits {
  return { ...planProcessors(config, notes), ...planMemory(config, notes) }
}

/** `limits.cpu` is a number of processors or a list of them. `limits.cpu.allowance` can be a limit `25ms/100ms`. */
function planProcessors(config: Values, notes: ImportNote[]): Limits {
  const { 'limits.cpu': cpu = '', 'limits.cpu.allowance': allowance = '' } = config
  const isPinned = /[-,]/.test(cpu)
  const count = isPinned ? countProcessors(cpu) : parseCount(cpu, 4096)
  if (isPinned)
    notes.push({
      part: `limits.cpu ${cpu}`,
      reason: 'the guest gets the same number of processors, but not the same processors',
    })
  const share = planShare(allowance)
  if (share > 0) return { vcpuMilli: Math.min(share, count ? count * 1000 : Infinity) }
  if (allowance !== '')
    notes.push({ part: `limits.cpu.allowance ${allowance}`, reason: 'a guest has a fixed number of processors' })
  return count ? { vcpuMilli: count * 1000 } : {}
}

/** Parses a hard limit such as `25ms/100ms`. @returns thousandths of a processor; 0 for other texts */
function planShare(allowance: string): number {
  const [, used = '', period = ''] = /^(\d{1,6})ms\/(\d{1,6})ms$/.exec(allowance) ?? []
  return Number(period) > 0 ? Math.round((Number(used) / Number(period)) * 1000) : 0
}

function planMemory({ 'limits.memory': memory = '' }: Values, notes: ImportNote[]): Limits {
  if (memory === '') return {}
  const bytes = parseSize(memory)
  if (bytes) return { ramMb: Math.ceil(bytes / mib) }
  notes.push({ part: `limits.memory ${memory}`, reason: 'a guest has a fixed amount of memory: set it with --ram' })
  return {}
}

function isRoot({ type, path }: Values): boolean {
  return type === 'disk' && path === '/'
}

function planRoot(devices: Devices, notes: ImportNote[]): Pick<ForeignContainer, 'diskBytes'> {
  const { size = '' } = Object.values(devices).find(isRoot) ?? {}
  const diskBytes = parseSize(size)
  if (size !== '' && !diskBytes)
    notes.push({ part: `size ${size} of the root disk`, reason: 'this is not a valid size, so it is ignored' })
  return diskBytes ? { diskBytes } : {}
}

function addressesOf(device: Values): string[] {
  return [device['ipv4.address'] ?? '', device['ipv6.address'] ?? ''].filter((address) => parseAddress(address))
}

/** Reads a proxy device. Its ports can be kept if the host forwards TCP or UDP to the container. */
function planProxy(name: string, device: Values, notes: ImportNote[]): ForeignMapping[] {
  const { listen = '', connect = '', bind = 'host' } = device
  const refuse = (reason: string): [] => {
    notes.push({ part: `proxy ${name} (${listen} to ${connect})`, reason })
    return []
  }
  if (bind !== 'host') return refuse('only ports of the host can be mapped to a guest')
  const [from, to] = [parseEndpoint(listen), parseEndpoint(connect)]
  if (!from || !to) return refuse('only TCP and UDP ports can be mapped')
  if (from.protocol !== to.protocol) return refuse('a mapping cannot change the protocol')
  const pairs = pairPorts(from.ports, to.ports)
  if (!pairs) return refuse('the proxy has different numbers of host ports and container ports')
  if (isLoopback(to.address))
    notes.push({
      part: `proxy ${name}`,
      reason: 'the program in the guest must listen on the address of eth0, not only on loopback',
    })
  const hostIp = ['0.0.0.0', '::'].includes(from.address) ? '' : from.address
  return joinRuns(pairs).map((run) => ({ protocol: from.protocol, hostIp, ...run }))
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.')
}

interface Endpoint {
  readonly protocol: 'tcp' | 'udp'
  readonly address: string
  readonly ports: readonly number[]
}

/** Parses `tcp:ADDRESS:PORTS`. PORTS is a list such as `80,8000-8010`, and an IPv6 address is in brackets. */
function parseEndpoint(text: string): Endpoint | undefined {
  const [, protocol = '', bracketed, plain, list = ''] =
    /^(tcp|udp):(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9,-]{1,1000})$/.exec(text) ?? []
  const address = parseAddress(bracketed ?? plain ?? '')?.text
  const ports = parsePorts(list)
  if (address === undefined || !ports) return undefined
  return { protocol: protocol as 'tcp' | 'udp', address, ports }
}

function parsePorts(list: string): number[] | undefined {
  const ports: number[] = []
  for (const part of list.split(',')) {
    const [, first = '', last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part) ?? []
    const [from, to] = [Number(first), Number(last)]
    if (first === '' || from < 1 || to > maxPort || from > to) return undefined
    for (let port = from; port <= to; port++) ports.push(port)
    if (list.split(',').length > maxListed) return undefined
  }
  return ports
}

type Pair = readonly [host: number, container: number]

/** Pairs host ports with container ports; undefined if impossible. Several host ports can share a container port. */
function pairPorts(from: readonly number[], to: readonly number[]): Pair[] | undefined {
  if (to.length === from.length) return from.map((port, at) => [port, to[at]!])
  return to.length === 1 && from.length <= maxListed ? from.map((port) => [port, to[0]!]) : undefined
}

/** Joins adjacent ports to ranges. */
function joinRuns(pairs: readonly Pair[]): Pick<ForeignMapping, 'hostPort' | 'containerPort' | 'length'>[] {
  const runs: { hostPort: number; containerPort: number; length: number }[] = []
  for (const [hostPort, containerPort] of pairs) {
    const last = runs.at(-1)
    const follows =
      last && hostPort === last.hostPort + last.length && containerPort === last.containerPort + last.length
    if (follows) last.length++
    else runs.push({ hostPort, containerPort, length: 1 })
  }
  return runs
}

const reasons: Readonly<Record<string, string>> = {
  nic: 'the guest gets an interface and an address of this host',
  disk: 'only the root disk is copied: copy these files into the guest afterwards',
  proxy: '',
  none: '',
}

/** Returns the devices that a guest can also have. Adds a note for each other device. */
function planDevice(name: string, device: Values, notes: ImportNote[]): ('tun' | 'fuse')[] {
  const { type = '', path = '', source = path } = device
  if (isRoot(device)) return []
  if (type === 'unix-char' && source === '/dev/net/tun') return ['tun']
  if (type === 'unix-char' && source === '/dev/fuse') return ['fuse']
  const reason = reasons[type] ?? 'guests cannot use this kind of device'
  if (reason !== '') notes.push({ part: `device ${name} (${type}${path && ` ${path}`})`, reason })
  return []
}

/** Prefixes of settings, and the reasons why a guest does not get them. */
const lostSettings: readonly (readonly [prefix: string, reason: string])[] = [
  ['security.privileged', 'guests are always unprivileged'],
  ['security.nesting', 'guests cannot run containers of their own with LXC'],
  ['security.', 'guests have the confinement of this host'],
  ['raw.', 'settings of LXC itself are not carried over'],
  ['linux.kernel_modules', 'guests cannot load kernel modules'],
  ['linux.sysctl.', 'set it inside the guest, if the guest may'],
  ['environment.', 'set it inside the guest'],
  ['snapshots.', 'set a schedule of snapshots for the guest'],
  ['boot.', 'a guest starts with its host if it ran before'],
  ['cloud-init.', 'cloud-init has run already'],
  ['user.', 'the text is not copied'],
  ['nvidia.', 'guests cannot use graphics cards'],
  ['limits.cpu', ''],
  ['limits.memory', ''],
  ['limits.', 'a guest has no such limit'],
]

function planConfigNotes(config: Values): ImportNote[] {
  return Object.entries(config).flatMap(([key, value]) => {
    if (value === '' || value === 'false') return []
    const reason = lostSettings.find(([prefix]) => key.startsWith(prefix))?.[1] ?? ''
    return reason === '' ? [] : [{ part: key, reason }]
  })
}
