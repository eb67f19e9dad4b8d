import type { TimeFormat } from '../../../shared/time.js'
import { isBound, type Principal } from '../../access/principal.js'
import type { FleetView, HostView } from '../../fleet/contract.js'
import { jsonListAnswer } from '../../http/json-list.js'
import { parseListQuery, rangeOf, wantsWholeList } from '../../http/list.js'
import type { Answer } from '../../http/route.js'
import { selectFrom, type Fields } from '../../lists/query.js'
import { boundGuests } from '../guests/visible.js'
import { hostRow, type HostRow, type HostRowParts } from './host-row.js'

export const hostSortable = ['id', 'name', 'status', 'containers', 'created_at', 'last_seen'] as const
const options = { sortable: hostSortable, filters: ['status', 'name'] } as const

type HostField = (typeof hostSortable)[number]

const fields = Object.fromEntries(
  hostSortable.map((name) => [name, ({ row }: RenderedHost) => row[name]]),
) as unknown as Fields<RenderedHost, HostField>

/** A host's row, and the data from which it was made. */
interface RenderedHost {
  readonly host: HostView
  readonly containers: number
  readonly row: HostRow
  readonly json: string
}

/**
 * Fields of a host that are compared by identity, because the view replaces their objects when they change. `metrics`
 * affects the row only through `warnings`.
 */
const replacedFields: Record<
  Exclude<keyof HostView, 'id' | 'metrics' | 'lastSeenMs' | 'warnings' | 'fenced' | 'maintenance'>,
  true
> = {
  name: true,
  address: true,
  install: true,
  joinToken: true,
  upgrade: true,
  state: true,
  draining: true,
  group: true,
  labels: true,
  drained: true,
  publicAddress: true,
  createdAtMs: true,
  certificateNotAfterMs: true,
  outdated: true,
  description: true,
}
const replacedNames = Object.keys(replacedFields) as (keyof typeof replacedFields)[]

interface HostListParts {
  readonly view: FleetView
  readonly time: TimeFormat
}

/** Answers `GET /hosts`. The row of each host is cached until data that it shows changes. */
export class HostList {
  /** Rows for callers who are not restricted to some guests, by host id. */
  readonly #cached = new Map<string, RenderedHost>()
  /** The last complete list, and its rows. */
  #whole: { readonly rows: readonly RenderedHost[]; readonly answer: Answer<never> } | undefined

  constructor(private readonly parts: HostListParts) {}

  async read(caller: Principal, query: object): Promise<Answer<never>> {
    if (isBound(caller)) return answerOf(this.#renderOwn(caller), query)
    const rows = this.#readAll(caller)
    if (!wantsWholeList(query)) return answerOf(rows, query)
    if (!this.#whole || !hasSameItems(this.#whole.rows, rows))
      this.#whole = { rows, answer: await answerOf(rows, query) }
    return this.#whole.answer
  }

  /** Renders the hosts for a caller who may see only some guests. Other guests are not counted. */
  #renderOwn(caller: Principal): RenderedHost[] {
    const { view, time } = this.parts
    const own = boundGuests(view, caller)
    const count = (hostId: string): number => own.filter((guest) => guest.hostId === hostId).length
    return view.hosts().map((host) => render(host, { caller, containers: count(host.id), time }))
  }

  #readAll(caller: Principal): RenderedHost[] {
    const { view } = this.parts
    const hosts = view.hosts()
    if (this.#cached.size > hosts.length) this.#cached.clear() // the cache contains hosts that were removed
    return hosts.map((host) => this.#read(host, caller))
  }

  #read(host: HostView, caller: Principal): RenderedHost {
    const { view, time } = this.parts
    const containers = view.countGuests(host.id).total
    const known = this.#cached.get(host.id)
    if (known?.containers === containers && hasSameRow(known.host, host)) return known
    const made = render(host, { caller, containers, time })
    this.#cached.set(host.id, made)
    return made
  }
}

function render(host: HostView, parts: HostRowParts): RenderedHost {
  const row = hostRow(host, parts)
  return { host, containers: parts.containers, row, json: JSON.stringify(row) }
}

function hasSameRow(a: HostView, b: HostView): boolean {
  return (
    replacedNames.every((name) => a[name] === b[name]) &&
    secondOf(a.lastSeenMs) === secondOf(b.lastSeenMs) &&
    hasSameItems(a.warnings, b.warnings)
  )
}

/** Returns the second to which the API rounds a time. */
function secondOf(ms: number): number {
  return Math.floor(ms / 1000)
}

function hasSameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at])
}

function answerOf(hosts: readonly RenderedHost[], query: object): Promise<Answer<never>> {
  const found = selectFrom(hosts, fields, parseListQuery(query as Record<string, unknown>, options))
  return jsonListAnswer(found.slice(...rangeOf(query)), ({ json }) => json, found.length)
}
