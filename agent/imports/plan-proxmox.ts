import { parseAddress } from '../../shared/addresses.js'
import type { IdMap, IdRange } from '../host/disk/copy-tree.js'
import type { ForeignContainer, ImportNote } from './contract.js'
import { parseCount, parseSize } from './plan-sizes.js'

/*
 * Reads the configuration of a container of Proxmox VE, /etc/pve/lxc/NUMBER.conf, and the list of storages,
 * /etc/pve/storage.cfg. Sources: pct.conf(5), and the chapters "Proxmox Container Toolkit" and "Proxmox VE Storage" of
 * the administration guide.
 */

export interface ProxmoxContainer extends ForeignContainer {
  /** Value of `rootfs` without its options: `STORAGE:VOLUME` or an absolute path. */
  readonly rootVolume: string
}

type Line = readonly [key: string, value: string]

/** User ids of an unprivileged container without a map of its own (pct.conf(5), `unprivileged`). */
const usualIds: readonly IdRange[] = [{ first: 100_000, shown: 0, count: 65_536 }]
const usualRamMb = 512

/** @returns the description; undefined if the text is not a configuration with a root file system */
export function planProxmox(text: string): ProxmoxContainer | undefined {
  const lines = parseLines(text)
  const values = new Map(lines)
  const root = parseOptions(values.get('rootfs') ?? '')
  if (root.volume === '') return undefined
  const notes: ImportNote[] = []
  const ids = planIds(lines)
  const diskBytes = parseSize(root.options.get('size') ?? '', 'binary')
  const networks = lines.filter(([key]) => /^net\d{1,2}$/.test(key))
  return {
    name: values.get('hostname') ?? '',
    rootVolume: root.volume,
    ...planRefusal(values, ids),
    ...planProcessors(values),
    ramMb: parseCount(values.get('memory') ?? '', 999_999_999) ?? usualRamMb,
    ...(diskBytes && { diskBytes }),
    ...planRate(networks, notes),
    addresses: networks.flatMap(([, value]) => addressesOf(value)),
    mappings: [],
    devices: lines.flatMap(planDevice),
    ...(typeof ids === 'object' && { ids }),
    notes: [...notes, ...lines.flatMap(planNote)],
  }
}

/** Returns the settings before the first section. Sections contain the configurations of snapshots. */
function parseLines(text: string): Line[] {
  const lines: Line[] = []
  for (const raw of text.split('\n')) {
    const line = raw.trim()
    if (line.startsWith('[')) break
    const [, key = '', value = ''] = /^([a-z][a-z0-9_.-]*)\s*[:=]\s*(.*)$/.exec(line) ?? []
    if (key !== '') lines.push([key, value])
  }
  return lines
}

/** Parses `VOLUME,key=value,…`. The first part can also be `volume=VOLUME`. */
function parseOptions(text: string): { volume: string; options: ReadonlyMap<string, string> } {
  const parts = text.split(',').map((part) => part.split('='))
  const options = new Map(parts.map(([key = '', ...value]) => [key, value.join('=')]))
  const [first = ['']] = parts
  return { volume: options.get('volume') ?? (first.length === 1 ? first[0]! : ''), options }
}

function planRefusal(
  values: ReadonlyMap<string, string>,
  ids: IdMap | 'invalid' | undefined,
): Pick<ForeignContainer, 'refusal'> {
  const lock = values.get('lock')
  if (lock !== undefined) return { refusal: `Proxmox has locked it (${lock}): wait for the end of its task` }
  if (values.get('template') === '1') return { refusal: 'it is a template, and only containers can be imported' }
  return ids === 'invalid' ? { refusal: 'its setting lxc.idmap is not a map of user ids' } : {}
}

function planIds(lines: readonly Line[]): IdMap | 'invalid' | undefined {
  const isUnprivileged = lines.some(([key, value]) => key === 'unprivileged' && value === '1')
  const own = lines.filter(([key]) => key === 'lxc.idmap' || key === 'lxc.id_map').map(([, value]) => value)
  if (own.length === 0) return isUnprivileged ? { users: usualIds, groups: usualIds } : undefined
  const parsed = own.map(parseRange)
  if (own.length > 340 || !parsed.every((one) => one !== undefined)) return 'invalid'
  const of = (kind: string): IdRange[] => parsed.filter((one) => one.kind === kind).map(({ range }) => range)
  const ids = { users: of('u'), groups: of('g') }
  return ids.users.length > 0 && ids.groups.length > 0 ? ids : 'invalid'
}

/** Parses `u 0 100000 65536`: the kind, the first id inside, the first id on the host, and the number of ids. */
function parseRange(text: string): { kind: string; range: IdRange } | undefined {
  const [, kind = '', shown = '', first = '', count = ''] =
    /^([ug])\s+(\d{1,10})\s+(\d{1,10})\s+(\d{1,10})$/.exec(text) ?? []
  const range = { first: Number(first), shown: Number(shown), count: Number(count) }
  const isValid = kind !== '' && range.count > 0 && Math.max(range.first, range.shown) + range.count < 2 ** 32
  return isValid ? { kind, range } : undefined
}

function planProcessors(values: ReadonlyMap<string, string>): Pick<ForeignContainer, 'vcpuMilli'> {
  const limit = /^\d{1,4}(\.\d{1,6})?$/.test(values.get('cpulimit') ?? '') ? Number(values.get('cpulimit')) : 0
  const cores = parseCount(values.get('cores') ?? '', 8192) ?? 0
  const vcpu = limit > 0 && cores > 0 ? Math.min(limit, cores) : limit || cores
  return vcpu > 0 ? { vcpuMilli: Math.round(vcpu * 1000) } : {}
}

/** `rate` of an interface is in megabytes per second. */
function planRate(networks: readonly Line[], notes: ImportNote[]): Pick<ForeignContainer, 'networkMbps'> {
  for (const [key] of networks.slice(1))
    notes.push({ part: key, reason: 'a guest has one interface, which replaces the first one of the container' })
  const rate = Number(parseOptions(networks[0]?.[1] ?? '').options.get('rate') ?? 0)
  return rate > 0 && rate <= 50_000 ? { networkMbps: Math.ceil(rate * 8) } : {}
}

function addressesOf(network: string): string[] {
  const { options } = parseOptions(network)
  const addresses = [options.get('ip') ?? '', options.get('ip6') ?? ''].map((text) => text.replace(/\/\d+$/, ''))
  return addresses.filter((address) => parseAddress(address))
}

function planDevice([key, value]: Line): ('tun' | 'fuse')[] {
  const { volume, options } = parseOptions(value)
  if (key === 'features') return options.get('fuse') === '1' ? ['fuse'] : []
  if (!/^dev\d{1,3}$/.test(key)) return []
  const path = options.get('path') ?? volume
  return path === '/dev/net/tun' ? ['tun'] : path === '/dev/fuse' ? ['fuse'] : []
}

const keptKeys =
  /^(arch|cores|cpulimit|hostname|lock|memory|net\d+|ostype|rootfs|template|unprivileged|lxc\.id_?map|digest|parent|cmode|console|tty|searchdomain|nameserver)$/

const lostKeys: readonly (readonly [key: RegExp, reason: string])[] = [
  [/^mp\d+$/, 'only the root file system is copied: copy these files into the guest afterwards'],
  [/^unused\d+$/, 'the volume is not in use'],
  [/^dev\d+$/, 'guests cannot use devices of the host, except tun and fuse'],
  [/^swap$/, 'guests share the swap of their host'],
  [/^cpuunits$/, 'a guest has a fixed number of processors'],
  [/^features$/, 'guests have the confinement of this host'],
  [/^(onboot|startup)$/, 'a guest starts with its host if it ran before'],
  [/^lxc\./, 'settings of LXC itself are not carried over'],
  [/^hookscript$/, 'guests have no scripts on the host'],
  [/^protection$/, 'protect the guest against deletion after the import'],
  [/^(tags|description)$/, 'set it for the guest'],
]

function planNote([key, value]: Line): ImportNote[] {
  if (keptKeys.test(key) || planDevice([key, value]).length > 0) return []
  const reason = lostKeys.find(([pattern]) => pattern.test(key))?.[1] ?? 'Berth does not know this setting'
  return [{ part: `${key} ${value}`.trim(), reason }]
}

/**
 * Finds the directory of a root file system in the list of storages.
 * @param number number of the container
 * @returns undefined if the volume is not a directory, such as a raw image or a logical volume
 */
export function planRootPath(volume: string, number: number, storages: string): string | undefined {
  if (volume.startsWith('/')) return volume
  const [, storage = '', name = ''] = volumePattern.exec(volume) ?? []
  const place = storage === '' ? undefined : findStorage(storages, storage)
  return place && directoryOf(place, number, name)
}

function directoryOf({ type, values }: Storage, number: number, name: string): string | undefined {
  if (type === 'zfspool') return `${values.get('mountpoint') ?? `/${values.get('pool') ?? ''}`}/${name}`
  const path = values.get('path') ?? ''
  return path.startsWith('/') && ['btrfs', 'dir', 'nfs'].includes(type) ? `${path}/images/${number}/${name}` : undefined
}

const volumePattern = /^([A-Za-z][A-Za-z0-9_.-]*):(?:\d+\/)?(subvol-\d+-disk-\d+(?:\.subvol)?)$/

interface Storage {
  readonly type: string
  readonly values: ReadonlyMap<string, string>
}

/** A section of storage.cfg begins with `TYPE: NAME`, and its settings are indented. */
function findStorage(text: string, name: string): Storage | undefined {
  const lines = text.split('\n')
  const heads = lines.map((line) => /^([a-z]+):\s*(\S+)\s*$/.exec(line))
  const at = heads.findIndex((head) => head?.[2] === name)
  const type = heads[at]?.[1]
  if (type === undefined) return undefined
  const next = heads.findIndex((head, index) => head !== null && index > at)
  const settings = lines.slice(at + 1, next === -1 ? undefined : next).map((line) => /^\s+(\S+)\s+(.*?)\s*$/.exec(line))
  return { type, values: new Map(settings.flatMap((one): [string, string][] => (one ? [[one[1]!, one[2]!]] : []))) }
}
