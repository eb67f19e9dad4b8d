import type { TimeFormat } from '../../../shared/time.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import { compactRow, guestRow } from './guest-row.js'
import { revisionEtag } from '../../http/if-match.js'
import { envelopeAround, etagOf } from '../../http/reply.js'
import type { Answer } from '../../http/route.js'

type Prepared = NonNullable<Answer<never>['prepared']>

/** Answers about guests, kept as bytes until what they show has changed. */
export interface GuestPages {
  /** `GET /containers`, all of them. */
  fullList(): Answer<never>
  /** `GET /containers/list`, all of them. */
  compactList(): Answer<never>
  detail(view: GuestView): Answer<never>
}

interface CachedDetail {
  readonly revision: number
  readonly online: boolean
  readonly hostId: string
  readonly json: string
  prepared: Prepared | undefined
}

export function createGuestPages(view: FleetView, time: TimeFormat): GuestPages {
  // Keyed by the record the agent sent: gone with it.
  const details: Details = new WeakMap()
  const detailOf = (guest: GuestView): CachedDetail => findFresh(details, guest) ?? keep(details, guest, time)
  return {
    fullList: cachedList(view, (guests) => guests.map((guest) => detailOf(guest).json)),
    compactList: cachedList(view, (guests) => guests.map((guest) => JSON.stringify(compactRow(guest)))),
    detail: (guest) => {
      const cached = detailOf(guest)
      const tagOf = (body: Buffer | string): string => revisionEtag(cached.revision, body)
      return { prepared: (cached.prepared ??= prepare(cached.json, tagOf)) }
    },
  }
}

type Details = WeakMap<Guest, CachedDetail>

function findFresh(details: Details, { guest, online, hostId }: GuestView): CachedDetail | undefined {
  const cached = details.get(guest)
  const fresh = cached?.revision === guest.revision && cached.online === online && cached.hostId === hostId
  return fresh ? cached : undefined
}

function keep(details: Details, view: GuestView, time: TimeFormat): CachedDetail {
  const { guest, online, hostId } = view
  const json = JSON.stringify(guestRow(view, time))
  const cached = { revision: guest.revision, online, hostId, json, prepared: undefined }
  details.set(guest, cached)
  return cached
}

/** The list as one buffer, made anew when the fleet's guests have changed. */
function cachedList(
  view: FleetView,
  rowsOf: (guests: readonly GuestView[]) => string[],
): () => Answer<never> {
  let version: number | undefined
  let answer: Answer<never> = {}
  return () => {
    if (version === view.guestsVersion) return answer
    version = view.guestsVersion
    const rows = rowsOf(sortedById(view.guests()))
    answer = { prepared: prepare(`[${rows.join(',')}]`), headers: { 'X-Total-Count': String(rows.length) } }
    return answer
  }
}

export function sortedById(guests: Iterable<GuestView>): GuestView[] {
  return [...guests].sort((a, b) => a.guest.id - b.guest.id)
}

/** A string of a packet's size leaves together with its headers in one write; a long one is kept encoded. */
const longBody = 16_384

function prepare(json: string, tagOf = etagOf): Prepared {
  const text = envelopeAround(json)
  const body = text.length > longBody ? Buffer.from(text) : text
  return { body, etag: tagOf(body) }
}
