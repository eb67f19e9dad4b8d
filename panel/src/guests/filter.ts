import type { Guest } from '../api/types.ts'

/** Search text and filters of the guest list. They are stored in the address of the page. */
export interface GuestFilter {
  readonly text: string
  readonly status: string
  readonly host: string
  readonly type: string
  readonly image: string
  readonly tag: string
  readonly flag: '' | 'expiring' | 'expired' | 'suspended' | 'blocked' | 'throttled' | 'rescue'
}

export const noFilter: GuestFilter = { text: '', status: '', host: '', type: '', image: '', tag: '', flag: '' }
export const sortableKeys = [
  ...([
    'name',
    'status',
    'type',
    'image',
    'id',
    'vcpu',
    'memory',
    'disk',
    'owner',
    'address',
    'host',
    'created',
    'expires_at',
  ] as const),
]
export type SortKey = (typeof sortableKeys)[number]
export interface Sorting {
  readonly key: SortKey
  readonly descending: boolean
}

const weekMs = 7 * 86_400_000
const texts = new WeakMap<Guest, string>()

/** Returns a guest's searchable text in lower case. The text is cached, because each key press searches all guests. */
function textOf(guest: Guest): string {
  const known = texts.get(guest)
  if (known !== undefined) return known
  const ports = guest.port_mappings.map(({ host_port, host_port_end }) =>
    host_port_end === undefined ? `:${host_port} ` : `:${host_port}-${host_port_end} `,
  )
  const addresses = [guest.ip, ...guest.public_ipv4s, ...guest.ipv6_addresses]
  const owners = (guest.owners ?? []).map(({ username }) => username)
  const text = [guest.name, `#${guest.id}`, guest.uuid, ...owners, ...guest.tags, ...addresses, ...ports]
    .join(' ')
    .toLowerCase()
  texts.set(guest, text)
  return text
}

/** Returns true if a guest matches a search. */
export type Matcher = (guest: Guest) => boolean

/**
 * Parses a search, so that it can be applied to many guests. Each word must occur in a guest's name, id, addresses or
 * ports. `203.0.113.7:20022` is a port of an address; `20022` is a port, an id or part of a name.
 */
export function matcherOf(search: string): Matcher {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean).map(matcherOfWord)
  const [only] = words
  return words.length === 1 && only ? only : (guest) => words.every((matches) => matches(guest))
}

function matcherOfWord(word: string): Matcher {
  const [, address = '', port = ''] = /^(.+):(\d{1,5})$/.exec(word) ?? []
  const bare = address.replace(/^\[(.*)\]$/, '$1')
  if (address.includes('.') || bare !== address) return (guest) => hasEndpoint(guest, bare, Number(port))
  if (!/^:?\d{1,5}$/.test(word)) return (guest) => textOf(guest).includes(word)
  const number = Number(word.replace(':', ''))
  return (guest) => textOf(guest).includes(word) || hasPort(guest.port_mappings, number)
}

function hasPort(mappings: Guest['port_mappings'], port: number): boolean {
  return mappings.some((one) => one.host_port <= port && port <= (one.host_port_end ?? one.host_port))
}

/**
 * True if the address and port can lead to the guest. A guest has all ports of its own addresses, and mapped ports of
 * its host. The addresses of the host are not known here. A mapping without an address therefore matches any address.
 */
function hasEndpoint({ port_mappings: mappings, ...guest }: Guest, address: string, port: number): boolean {
  if ([guest.ip, ...guest.public_ipv4s, ...guest.ipv6_addresses].includes(address)) return true
  return hasPort(
    mappings.filter(({ host_ip: own }) => own === undefined || own === address),
    port,
  )
}

/** Prepares the searchable texts in portions before the user types a search. @returns a function that stops the work */
export function prepareSearch(guests: readonly Guest[]): () => void {
  let at = 0
  const later =
    typeof requestIdleCallback === 'function' ? requestIdleCallback : (run: () => void) => setTimeout(run, 50)
  const work = (): void => {
    for (const end = Math.min(at + 500, guests.length); at < end; at++) textOf(guests[at]!)
    if (at < guests.length) later(work)
  }
  later(work)
  return () => void (at = guests.length)
}

/** @param nowText the current time in the form of the API's times, which can be compared as text */
export function filterGuests(guests: readonly Guest[], filter: GuestFilter, now: TimeBounds): Guest[] {
  const matches = matcherOf(filter.text)
  return guests.filter(
    (guest) =>
      (filter.status === '' || guest.status === filter.status) &&
      (filter.host === '' || guest.host_id === filter.host) &&
      (filter.type === '' || guest.virtualization === filter.type) &&
      (filter.image === '' || guest.template === filter.image) &&
      hasTag(guest, filter.tag) &&
      (filter.flag === '' || hasFlag(guest, filter.flag, now)) &&
      matches(guest),
  )
}

function hasTag({ tags }: Guest, tag: string): boolean {
  return tag === '' || tags.includes(tag)
}

function hasFlag(
  { expires_at: expiry, policy_blocked: blocked, policy, throttled, boot }: Guest,
  flag: GuestFilter['flag'],
  bounds: TimeBounds,
): boolean {
  if (flag === 'blocked') return blocked
  if (flag === 'throttled') return throttled
  if (flag === 'suspended') return policy === 'suspended'
  if (flag === 'rescue') return boot.mode === 'rescue'
  return flag === 'expired' ? expiry !== '' && expiry <= bounds.nowText : isExpiring(expiry, bounds)
}

/** The current time and the time in one week, in the form of the API's times. */
interface TimeBounds {
  readonly nowText: string
  readonly soonText: string
}

/** True if an expiry lies between the bounds. @param expiry time of the API; "": never */
export function isExpiring(expiry: string, { nowText, soonText }: TimeBounds): boolean {
  return expiry > nowText && expiry <= soonText
}

/** Returns the current time and the time in one week. @param format converts ms to the form of the API's times */
export function timeBounds(nowMs: number, format: (ms: number) => string): TimeBounds {
  return { nowText: format(nowMs), soonText: format(nowMs + weekMs) }
}

/** Compares texts by code points. Times of the API then sort correctly, and `~` sorts after all times and names. */
const compareTexts = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
const names = new WeakMap<Guest, string>()

/** Returns a text to sort a guest's name by. Numbers in names are sorted by their value. Names contain only ASCII. */
function nameKey(guest: Guest): string {
  const known = names.get(guest)
  if (known !== undefined) return known
  const key = guest.name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, '0'))
  names.set(guest, key)
  return key
}

/** Returns a text to sort a guest's address by: the address that the list shows, by the value of its numbers. */
function addressKey({ public_ipv4s: own, ip }: Guest): string {
  const address = own[0] ?? ip
  return address.replace(/\d+/g, (digits) => digits.padStart(3, '0')) || '~'
}

const sortTexts = {
  name: nameKey,
  status: ({ status }) => status,
  type: ({ virtualization }) => virtualization,
  image: ({ template }) => template,
  owner: ({ owners }) => owners?.[0]?.username ?? '~',
  address: addressKey,
  host: ({ host_id: id }, hostName) => hostName(id),
  created: ({ created_at: at }) => at,
  expires_at: ({ expires_at: expiry }) => expiry || '~',
} satisfies Partial<Record<SortKey, (guest: Guest, hostName: (id: string) => string) => string>>

const sortNumbers = {
  id: ({ id }) => id,
  vcpu: ({ vcpu }) => vcpu,
  memory: ({ ram_mb: mb }) => mb,
  disk: ({ disk_gb: gb }) => gb,
} satisfies Partial<Record<SortKey, (guest: Guest) => number>>

/** Sorts guests by a column. @param hostName returns the name of a host; the column of hosts is sorted by name */
export function sortGuests(
  guests: readonly Guest[],
  { key, descending }: Sorting,
  hostName: (id: string) => string = (id) => id,
): Guest[] {
  const sorted = [...guests].sort(compareBy(key, hostName))
  return descending ? sorted.reverse() : sorted
}

function compareBy(key: SortKey, hostName: (id: string) => string): (a: Guest, b: Guest) => number {
  if (key === 'id' || key === 'vcpu' || key === 'memory' || key === 'disk') {
    const read = sortNumbers[key]
    return (a, b) => read(a) - read(b)
  }
  const read = sortTexts[key]
  return (a, b) => compareTexts(read(a, hostName), read(b, hostName))
}

/** Actions that the API applies to several guests. Other bulk actions of the panel are one request for each guest. */
export type BatchAction = 'start' | 'stop' | 'restart' | 'delete'
export type BulkAction = BatchAction | 'extend' | 'snapshot'

const effective: Readonly<Record<BulkAction, (guest: Guest) => boolean>> = {
  start: ({ status }) => status === 'stopped' || status === 'error',
  stop: ({ status }) => status === 'running' || status === 'starting' || status === 'error',
  restart: ({ status }) => status === 'running',
  delete: ({ status }) => status !== 'deleting',
  extend: ({ expires_at: expiry, status }) => expiry !== '' && status !== 'deleting',
  snapshot: ({ snapshot_limit: most, status }) => most > 0 && (status === 'running' || status === 'stopped'),
}

/** Splits guests into those that a bulk action changes and those for which it has no effect. */
export function planBulk(
  guests: readonly Guest[],
  action: BulkAction,
): { readonly changed: readonly Guest[]; readonly unchanged: readonly Guest[] } {
  const changes = effective[action]
  return { changed: guests.filter(changes), unchanged: guests.filter((guest) => !changes(guest)) }
}

/** Adds days to an expiry. If the expiry has passed, adds them to the current time. Times have the API's form. */
export function extendedExpiry(expiry: string, days: number, nowText: string): string {
  const from = expiry > nowText ? expiry : nowText
  const atMs = Date.parse(`${from.replace(' ', 'T')}Z`) + days * 86_400_000
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ')
}
