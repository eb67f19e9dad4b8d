import { eachLimited } from '../../shared/async/each-limited.js'
import { RefusedError, type BerthClient } from '../../client/index.js'
import { cliErrorOf } from '../errors.js'
import type { Row } from '../output/table.js'
import { kindOf, kinds, type Kind } from './kinds.js'
import { currentItem, type CurrentItem, type NamesOfIds } from './plan-current.js'

/* This module reads the state of a fleet through the API. */

type Sender = Pick<BerthClient, 'send'>

/** Maximum number of requests that are sent at the same time. */
export const parallelRequests = 8

export interface ReadOptions {
  /** Sections of the file that are read. */
  readonly sections: ReadonlySet<string>
  /** True if the firewall of a guest with this name is needed. */
  readonly needsFirewall: (name: string) => boolean
  /** True to leave out sections that the API key is not allowed to read. */
  readonly isLenient: boolean
}

export interface PresentFleet {
  readonly items: readonly CurrentItem[]
  readonly names: NamesOfIds
  /** Names of the hosts by their ids; undefined: the API key is not allowed to read hosts. */
  readonly hosts: ReadonlyMap<string, string> | undefined
  /** Sentences about firewalls that could not be read. */
  readonly unread: readonly string[]
  /** Sentences about sections that the API key is not allowed to read. */
  readonly forbidden: readonly string[]
}

/** @throws {CliError} if the gateway cannot be reached, or refuses a request that must succeed */
export async function readPresent(client: Sender, options: ReadOptions): Promise<PresentFleet> {
  const hostRows = await readRows(client, '/hosts', true)
  const guestRows = (await readRows(client, '/containers', false)) as Row[]
  const names = { hosts: namesById(hostRows ?? [], 'id'), guests: namesById(guestRows, 'uuid') }
  const firewalls = await readFirewalls(client, guestRows, options)
  const others = await readOthers(client, options)
  const items = [
    ...firewalls.rows.map((row) => currentItem(kindOf('guest'), row, names)),
    ...others.found.flatMap(({ kind, rows }) => rows.map((row) => currentItem(kind, row, names))),
  ]
  const hosts = hostRows && names.hosts
  return { items, names, hosts, unread: firewalls.unread, forbidden: others.forbidden }
}

function namesById(rows: readonly Row[], idField: string): ReadonlyMap<string, string> {
  return new Map(rows.map((row) => [String(row[idField]), String(row['name'])]))
}

/** Returns the rows of a list. A single object becomes a list with one row. */
async function readRows(client: Sender, path: string, isLenient: boolean): Promise<Row[] | undefined> {
  try {
    const { data } = (await client.send({ method: 'GET', path })).body
    return Array.isArray(data) ? (data as Row[]) : [data as Row]
  } catch (cause) {
    if (isLenient && cause instanceof RefusedError && cause.status === 403) return undefined
    throw cause
  }
}

interface OtherRows {
  readonly found: readonly { readonly kind: Kind; readonly rows: readonly Row[] }[]
  readonly forbidden: readonly string[]
}

async function readOthers(client: Sender, { sections, isLenient }: ReadOptions): Promise<OtherRows> {
  const wanted = kinds.filter(({ noun, section }) => noun !== 'guest' && sections.has(section))
  const read = await Promise.all(
    wanted.map(async (kind) => ({ kind, rows: await readRows(client, kind.path, isLenient) })),
  )
  return {
    found: read.flatMap(({ kind, rows }) => (rows === undefined ? [] : [{ kind, rows }])),
    forbidden: read
      .filter(({ rows }) => rows === undefined)
      .map(({ kind }) => `${kind.section} is left out: the API key has no right to read it`),
  }
}

interface GuestRows {
  readonly rows: readonly Row[]
  readonly unread: readonly string[]
}

/** Adds the firewalls that are needed to the rows of guests. */
async function readFirewalls(
  client: Sender,
  guests: readonly Row[],
  { needsFirewall }: ReadOptions,
): Promise<GuestRows> {
  const firewalls = new Map<Row, unknown>()
  const unread: string[] = []
  const needed = guests.filter(({ name }) => needsFirewall(String(name)))
  await eachLimited(needed, { limit: parallelRequests }, async (row) => {
    const firewall = await readFirewall(client, String(row['uuid']))
    if (firewall instanceof Error) unread.push(`firewall of guest ${String(row['name'])}: ${firewall.message}`)
    else firewalls.set(row, firewall)
  })
  return { rows: guests.map((row) => ({ ...row, firewall: firewalls.get(row) })), unread }
}

/** Returns the firewall. Returns the error if it cannot be read, for example because the guest's host is offline. */
async function readFirewall(client: Sender, uuid: string): Promise<unknown> {
  try {
    return (await client.send({ method: 'GET', path: `/containers/${uuid}/firewall` })).body.data
  } catch (cause) {
    return cliErrorOf(cause) ?? new Error('the answer of the gateway has an unexpected format', { cause })
  }
}

/** A guest, and the ETag that a request to change it must contain. */
export interface GuestState {
  readonly current: CurrentItem
  readonly etag: string | undefined
}

/** Reads one guest. @throws {CliError} as `readPresent` */
export async function readGuestState(
  client: Sender,
  uuid: string,
  { names, needsFirewall }: { readonly names: NamesOfIds; readonly needsFirewall: boolean },
): Promise<GuestState> {
  const path = `/containers/${encodeURIComponent(uuid)}`
  const { body, etag } = await client.send({ method: 'GET', path })
  // The firewall is read after the guest's ETag. If the guest changes between the two reads, the next request fails.
  const firewall = needsFirewall ? await client.send({ method: 'GET', path: `${path}/firewall` }) : undefined
  const row = { ...(body.data as Row), firewall: firewall?.body.data }
  return { current: currentItem(kindOf('guest'), row, names), etag }
}
