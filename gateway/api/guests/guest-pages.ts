import { Type } from 'typebox'
import { tagPattern } from '../../../shared/label-rules.js'
import type { TimeFormat } from '../../../shared/time.js'
import { isBound, type Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import type { HostWindow } from '../../fleet/host-windows.js'
import { guestFields, type GuestField } from '../../fleet/lists/guest-table.js'
import { selectFrom, type ListQuery } from '../../lists/query.js'
import { revisionEtag } from '../../http/if-match.js'
import { jsonListAnswer } from '../../http/json-list.js'
import { listQuery, parseListQuery, rangeOf, wantsWholeList } from '../../http/list.js'
import { envelopeAround } from '../../http/reply.js'
import type { Answer } from '../../http/route.js'
import { noOwners, type Owner, type OwnerMap } from '../../sub-users/owners.js'
import {
  compactRow,
  differsForCustomer,
  guestRow,
  textFilter,
  GuestStatusSchema,
  VirtualizationSchema,
} from './guest-row.js'
import { boundGuests } from './visible.js'
import { WholeList } from './whole-list.js'

export const GuestListQuery = listQuery({
  name: textFilter,
  status: GuestStatusSchema,
  virtualization: VirtualizationSchema,
  template: textFilter,
  host_id: textFilter,
  tag: Type.String({ pattern: tagPattern, description: 'Only containers that have this tag.' }),
})

export const guestSortable = [
  ...(['id', 'name', 'status', 'template', 'vcpu', 'ram_mb', 'disk_gb', 'created_at', 'host_id'] as const),
]

const options = {
  sortable: guestSortable,
  filters: ['name', 'status', 'virtualization', 'template', 'host_id', 'tag'],
} as const

/** Answers of routes that read guests. The row of each guest is cached until its data changes. */
export interface GuestPages {
  /** Answers `GET /containers`. */
  fullList(caller: Principal, query: object): Promise<Answer<never>>
  /** Answers `GET /containers/list`. */
  compactList(caller: Principal, query: object): Promise<Answer<never>>
  /** Answers `GET /containers/{id}`. */
  detail(caller: Principal, view: GuestView): Promise<Answer<never>>
}

/** A cached row of a guest. It is stored in the guest's object of the fleet view, and is dropped with this object. */
interface CachedRow {
  readonly online: boolean
  readonly hostAddress: string
  readonly maintenance: HostWindow | undefined
  readonly json: string
  prepared: { body: string; etag: string } | undefined
}

export interface GuestPageParts {
  readonly view: FleetView
  readonly time: TimeFormat
  /** Reads the sub-users of each guest. */
  readonly readOwners: () => Promise<OwnerMap>
}

export function createGuestPages({ view, time, readOwners }: GuestPageParts): GuestPages {
  let owners = noOwners
  const shownOf = (guest: GuestView): CachedRow => findShown(guest) ?? show(guest, time)
  const jsonOf = (guest: GuestView): string => shownOf(guest).json
  const customerJsonOf = (guest: GuestView): string =>
    differsForCustomer(guest) ? JSON.stringify(guestRow(guest, time, 'customer')) : jsonOf(guest)
  const ownedJsonOf = (guest: GuestView): string => withOwners(jsonOf(guest), owners.of(guest.guest.uuid))
  const compactOf = (guest: GuestView): string => JSON.stringify(compactRow(guest))
  const plainList = listOf(view, { jsonOf, customerJsonOf })
  const ownedList = listOf(view, { jsonOf: ownedJsonOf, customerJsonOf }, () => owners.version)
  return {
    fullList: async (caller, query) => {
      if (!seesOwners(caller)) return plainList(caller, query)
      owners = await readOwners()
      return ownedList(caller, query)
    },
    compactList: listOf(view, { jsonOf: compactOf, customerJsonOf: compactOf }),
    detail: async (caller, guest) => {
      if (seesOwners(caller)) {
        owners = await readOwners()
        return { prepared: prepare(guest, ownedJsonOf(guest)) }
      }
      if (isBound(caller) && differsForCustomer(guest)) return { prepared: prepare(guest, customerJsonOf(guest)) }
      const shown = shownOf(guest)
      shown.prepared ??= prepare(guest, shown.json)
      return { prepared: shown.prepared }
    },
  }
}

/** True if the caller may see the sub-users of guests. Callers restricted to some guests must not see them. */
function seesOwners(caller: Principal): boolean {
  return !isBound(caller) && coversScope(caller.scopes, 'subuser:read')
}

function withOwners(json: string, owners: readonly Owner[]): string {
  return `${json.slice(0, -1)},"owners":${JSON.stringify(owners)}}`
}

function prepare({ guest }: GuestView, json: string): { body: string; etag: string } {
  const body = envelopeAround(json)
  return { body, etag: revisionEtag(guest.revision, body) }
}

function findShown({ shown, online, hostAddress, maintenance }: GuestView): CachedRow | undefined {
  const kept = shown as CachedRow | undefined
  const isCurrent = kept?.online === online && kept.hostAddress === hostAddress && kept.maintenance === maintenance
  return isCurrent ? kept : undefined
}

function show(guest: GuestView, time: TimeFormat): CachedRow {
  const { online, hostAddress, maintenance } = guest
  const json = JSON.stringify(guestRow(guest, time))
  const shown = { online, hostAddress, maintenance, json, prepared: undefined }
  guest.shown = shown
  return shown
}

type JsonOf = (guest: GuestView) => string

function listOf(
  view: FleetView,
  { jsonOf, customerJsonOf }: { readonly jsonOf: JsonOf; readonly customerJsonOf: JsonOf },
  /** Version of row data that is not part of the guest, such as owners. If it changes, all rows are rendered again. */
  extraVersion?: () => number,
): GuestPages['fullList'] {
  const whole = new WholeList(view, jsonOf, extraVersion)
  return async (caller, query) => {
    if (!isBound(caller) && wantsWholeList(query)) return whole.read()
    const range = rangeOf(query)
    const wanted = withoutDeleted(view, parseListQuery(query as Record<string, unknown>, options))
    const { items, total } = await select(view, caller, { wanted, range })
    return jsonListAnswer(items, isBound(caller) ? customerJsonOf : jsonOf, total)
  }
}

/** Hides deleted guests, unless the query asks for guests with the status `deleted`. */
function withoutDeleted(view: FleetView, query: ListQuery<GuestField>): ListQuery<GuestField> {
  const asksForThem = query.filters.some(({ field, value }) => field === 'status' && value === 'deleted')
  if (asksForThem || view.guestTable.countOf('status', 'deleted') === 0) return query
  return { ...query, filters: [...query.filters, { field: 'deleted', value: 'false' }] }
}

interface SelectedGuests {
  readonly items: readonly GuestView[]
  readonly total: number
}

async function select(
  view: FleetView,
  caller: Principal,
  { wanted, range }: { wanted: ListQuery<GuestField>; range: [number, number] },
): Promise<SelectedGuests> {
  const few = findFew(view, caller, wanted)
  if (few) {
    const found = selectFrom(few, guestFields, wanted)
    return { items: found.slice(...range), total: found.length }
  }
  const result = await view.guestTable.select(wanted)
  return { items: result.slice(...range), total: result.size }
}

/** Returns the few guests that a restricted caller or a filter by name selects. `undefined`: all guests can match. */
function findFew(view: FleetView, caller: Principal, { filters }: ListQuery<GuestField>): GuestView[] | undefined {
  if (isBound(caller)) return boundGuests(view, caller)
  const named = filters.find(({ field }) => field === 'name')
  if (!named) return undefined
  const guest = view.findGuestByName(named.value)
  return guest ? [guest] : []
}
