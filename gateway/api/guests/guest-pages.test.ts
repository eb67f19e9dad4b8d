import { expect } from 'chai'
import fc from 'fast-check'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { createTimeFormat } from '../../../shared/time.js'
import type { GuestView } from '../../fleet/contract.js'
import { FleetState } from '../../fleet/view.js'
import { bodyText } from '../../http/reply-body.js'
import type { Principal } from '../../access/principal.js'
import type { Answer } from '../../http/route.js'
import { noOwners } from '../../sub-users/owners.js'
import { createGuestPages } from './guest-pages.js'
import { compactRow, guestRow } from './guest-row.js'

const time = createTimeFormat('UTC')
const everybody = { guests: 'all', scopes: ['container:read'] } as unknown as Principal
const unlimited = { guests: 'all', scopes: ['*'] } as unknown as Principal
let owners = noOwners
const uuidOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const reported = (id: number, more: Partial<Guest> = {}): Guest =>
  Guest.fromPartial({ uuid: uuidOf(id), id, name: `guest-${id}`, revision: 1, ...more })

function startView() {
  const view = new FleetState()
  const hosts = ['a', 'b'].map((id) =>
    view.setHost({
      id,
      version: 1,
      name: id,
      address: `${id}:1`,
      draining: false,
      createdAtMs: 0,
      serials: ['1'],
      certificateNotAfterMs: 1,
    }),
  )
  return { view, hosts, pages: createGuestPages({ view, time, readOwners: async () => owners }) }
}

function rowsOf({ prepared }: Answer<never>): unknown[] {
  return (JSON.parse(bodyText(prepared!.body)) as { data: unknown[] }).data
}

const guestSteps = fc.record({
  host: fc.integer({ min: 0, max: 1 }),
  // The ids belong to several blocks, and include first and last ids of blocks.
  id: fc.constantFrom(1, 2, 255, 256, 257, 511, 512, 700, 5000),
  kind: fc.constantFrom('set', 'set', 'delete', 'online', 'offline', 'read' as const),
  status: fc.constantFrom('running', 'stopped'),
})

describe('a list of guests', () => {
  it('shows the current state of all guests in its full and its short form, and has a new ETag after each change', () =>
    fc.assert(
      fc.asyncProperty(fc.array(guestSteps, { maxLength: 30 }), async (steps) => {
        const { view, hosts, pages } = startView()
        const texts = new Map<string, string>()
        for (const { host: n, id, kind, status } of [...steps, { host: 0, id: 1, kind: 'read', status: 'running' }]) {
          const host = hosts[n]!
          if (kind === 'set') view.apply(host, { $case: 'guest', value: reported(id, { status }) })
          else if (kind === 'delete') view.apply(host, { $case: 'removed', value: { kind: 'guest', key: uuidOf(id) } })
          else if (kind !== 'read') view.setOnline(host, kind === 'online')
          else {
            const guests = [...view.guests()]
            for (const [list, row] of [
              [await pages.fullList(everybody, {}), (guest: GuestView) => guestRow(guest, time)],
              [await pages.compactList(everybody, {}), compactRow],
            ] as const) {
              expect(rowsOf(list)).to.deep.equal(JSON.parse(JSON.stringify(guests.map((guest) => row(guest)))))
              expect(list.headers?.['X-Total-Count']).to.equal(String(guests.length))
              const text = bodyText(list.prepared!.body)
              expect(texts.get(list.prepared!.etag) ?? text).to.equal(text)
              texts.set(list.prepared!.etag, text)
            }
          }
        }
        expect(new Set(texts.values()).size).to.equal(texts.size)
      }),
      { numRuns: 100 },
    ))

  it('renders again only the part that contains a changed guest, even after a change during a request', async () => {
    const { view, hosts, pages } = startView()
    for (let id = 0; id < 5000; id++) view.apply(hosts[0]!, { $case: 'guest', value: reported(id + 1) })
    const piecesOf = async () => (await pages.fullList(everybody, {})).prepared!.body as readonly Buffer[]
    const before = await piecesOf()
    expect(before).to.be.an('array')
    const reading = pages.fullList(everybody, {})
    view.apply(hosts[0]!, { $case: 'guest', value: reported(1000, { statusReason: 'changed', revision: 2 }) })
    const after = await piecesOf()
    const changed = after.filter((piece, n) => before[n]!.buffer !== piece.buffer || !before[n]!.equals(piece))
    expect(changed.filter(({ length }) => length > 100)).to.have.length(1)
    await reading
    expect(rowsOf(await pages.fullList(everybody, {}))[999]).to.include({
      id: 1000,
      status_reason: 'changed',
    })
  })

  it('shows callers bound to containers only these containers, even with filters, sorting and pages', async () => {
    const { view, hosts, pages } = startView()
    for (let id = 1; id <= 20; id++) view.apply(hosts[id % 2]!, { $case: 'guest', value: reported(id) })
    const bound = { guests: new Set([3, 8, 5, 12].map(uuidOf)), scopes: ['*'] } as unknown as Principal
    const read = async (caller: Principal, query: object) => {
      const answer = await pages.fullList(caller, query)
      return [rowsOf(answer).map((row) => (row as { id: number }).id), answer.headers?.['X-Total-Count']]
    }
    expect(await read(bound, {})).to.deep.equal([[3, 5, 8, 12], '4'])
    expect(await read(bound, { sort: '-id', page: 1, page_size: 2 })).to.deep.equal([[12, 8], '4'])
    expect(await read(bound, { host_id: 'b' })).to.deep.equal([[3, 5], '2'])
    expect(await read(bound, { name: 'guest-4' })).to.deep.equal([[], '0'])
    expect(await read(everybody, { name: 'guest-4' })).to.deep.equal([[4], '1'])
    expect(await read(everybody, { name: 'GUEST-4' })).to.deep.equal([[], '0'])
    expect(await read(everybody, { host_id: 'b', sort: '-name', page: 2, page_size: 3 })).to.deep.equal([
      [3, 19, 17],
      '10',
    ])
  })

  it('shows the owners of guests only to callers with the right scope that are not bound to containers', async () => {
    const { view, hosts, pages } = startView()
    for (const id of [1, 2]) view.apply(hosts[0]!, { $case: 'guest', value: reported(id) })
    const clara = [{ id: '7', username: 'clara' }]
    const ownersOf = async (caller: Principal): Promise<unknown[]> => {
      const rows = rowsOf(await pages.fullList(caller, {})) as { owners?: unknown; uuid: string }[]
      for (const row of rows) {
        const { prepared } = await pages.detail(caller, view.findGuest(row.uuid)!)
        expect((JSON.parse(bodyText(prepared!.body)) as { data: unknown }).data).to.deep.equal(row)
      }
      return rows.map((row) => row.owners)
    }
    const bound = { guests: new Set([uuidOf(1)]), scopes: ['*'] } as unknown as Principal
    owners = { version: 1, of: (uuid) => (uuid === uuidOf(2) ? clara : []) }
    expect(await ownersOf(unlimited)).to.deep.equal([[], clara])
    owners = { version: 2, of: (uuid) => (uuid === uuidOf(1) ? clara : []) }
    expect(await ownersOf(unlimited)).to.deep.equal([clara, []])
    expect(await ownersOf(everybody), 'without the scope').to.deep.equal([undefined, undefined])
    expect(await ownersOf(bound)).to.deep.equal([undefined])
    owners = noOwners
  })
})
