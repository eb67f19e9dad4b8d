import { expect } from 'chai'
import type { ChangeMark } from '../fleet/change-mark.js'
import { CatchUp } from './catch-up.js'
import type { EventContent, EventType } from './event.js'
import { includes, join, markAfter, markAt, type Position } from './positions.js'
import { EventRing } from './ring.js'

const lane = 'x/journal/e'
const at = (revision: number, part = 0): number => markAt({ lane, revision }, part).at
const event = (guestUuid: string, type: EventType = 'guest.updated'): EventContent => {
  return { type, hostId: 'x', guestUuid, data: '{}' }
}
type Entry = readonly [ChangeMark | undefined, (EventContent | undefined)?, number?]

/** Returns the verdicts about the entries of a ring for a client at `position`. */
function verdicts(position: Position, entries: readonly Entry[], connections: Position | undefined = position) {
  const ring = new EventRing({ epoch: 'b', first: 1, base: new Map() }, { count: 100, bytes: 1e6 })
  for (const [mark, content, part = 0] of entries) ring.add(content, mark && markAt(mark, part))
  const catchUp = new CatchUp({ numbers: [{ epoch: 'a', number: 9 }], position, connections })
  return [...ring.all()].map((entry) => catchUp.judge(entry))
}
const change = (revision: number, guest = 'g', more: Partial<ChangeMark> = {}): Entry => [
  { lane, revision, ...more },
  event(guest),
]

describe('the events that a client from another gateway has missed', () => {
  const position = new Map([
    [lane, at(5)],
    ['x/record', markAfter({ lane, revision: 2 }).at],
    ['x/usage', markAfter({ lane, revision: 1000 }).at],
  ])

  for (const [name, entries, expected] of [
    [
      'are the events with a higher revision than the client has',
      [change(4), change(5), change(6)],
      ['skip', 'skip', 'send'],
    ],
    [
      'include the second event of a change if the client has received only the first event of this change',
      [
        [{ lane, revision: 5 }, event('g'), 0],
        [{ lane, revision: 5 }, event('g', 'guest.suspended'), 1],
      ],
      ['skip', 'send'],
    ],
    [
      'are determined separately for each host',
      [change(9), [{ lane: 'y/journal/e', revision: 1 }, event('h')], change(5)],
      ['send', 'send', 'skip'],
    ],
    [
      'include changes of host records and samples of usage',
      [
        [{ lane: 'x/record', revision: 2 }, event('', 'host.updated')],
        [{ lane: 'x/record', revision: 3 }, event('', 'host.updated')],
        [{ lane: 'x/usage', revision: 1000 }, event('', 'usage.host')],
        [{ lane: 'x/usage', revision: 2000 }, event('', 'usage.host')],
      ],
      ['skip', 'send', 'skip', 'send'],
    ],
    [
      'include events without a revision only after the first missing event with a revision',
      [[undefined, event('g')], change(6), [undefined, event('g')]],
      ['skip', 'send', 'send'],
    ],
    [
      'include no changes of this gateway’s connections to hosts if the client does not know these connections',
      [change(6), [{ lane: 'x/online', revision: 0 }, event('', 'host.offline')]],
      ['send', 'skip'],
    ],
    [
      'include all events of a guest after its removal if the client missed the removal',
      [[{ lane: 'y/journal/e', revision: 1 }, event('g', 'guest.removed')], change(5, 'g'), change(5, 'h')],
      ['send', 'send', 'skip'],
    ],
    [
      'cannot be sent if this gateway itself has also missed some of the changes',
      [change(6, 'g', { isGap: true })],
      ['gap'],
    ],
    [
      'can be sent if this gateway has missed only changes that the client already has',
      [change(5, 'g', { isGap: true })],
      ['skip'],
    ],
    [
      'cannot be sent if this gateway has missed the beginning of a host’s new journal',
      [[{ lane: 'x/journal/f', revision: 1, isGap: true }]],
      ['gap'],
    ],
  ] as const satisfies readonly (readonly [string, readonly Entry[], readonly string[]])[])
    it(name, () => expect(verdicts(position, entries)).to.deep.equal(expected))

  it('include changes of this gateway’s connections to hosts if the client already knows these connections', () => {
    const entries: Entry[] = [[{ lane: 'x/online', revision: 1 }, event('', 'host.online')]]
    const catchUp = new CatchUp({ numbers: [], position, connections: undefined })
    expect(catchUp.takeConnections(new Map(), ['x'])).to.deep.equal([])
    const ring = new EventRing({ epoch: 'b', first: 1, base: new Map() }, { count: 100, bytes: 1e6 })
    const [[mark, content]] = entries as [Entry]
    expect(catchUp.judge(ring.add(content, markAt(mark!, 0)))).to.equal('send')
  })

  it('are followed by the connection state of each host whose state the client does not know yet', () => {
    const [on, off] = [1, 0].map((revision) => markAfter({ lane: '', revision }).at) as [number, number]
    const known = new Map([...position, ['x/online', on], ['y/online', off], ['z/online', on]])
    const latest = new Map([...position, ['x/online', off], ['y/online', on], ['z/online', on]])
    const catchUp = new CatchUp({ numbers: [{ epoch: 'a', number: 9 }], position: known, connections: known })
    const own = { epoch: 'b', number: 3 }
    expect([catchUp.isOver(latest), catchUp.idAfter(own)]).to.deep.equal([false, 'a.9~b.3'])
    expect(catchUp.takeConnections(latest, ['x', 'y', 'z', 'new'])).to.deep.equal(['x', 'y'])
    expect([catchUp.isOver(latest), catchUp.idAfter(own)]).to.deep.equal([true, 'b.3~a.9'])
  })

  it('are complete only when this gateway has seen all changes that the client has received', () => {
    const catchUp = new CatchUp({ numbers: [], position, connections: undefined })
    expect(catchUp.isOver(new Map([...position, [lane, at(4)]]))).to.equal(false)
    expect(catchUp.isOver(new Map([...position, [lane, at(6)]]))).to.equal(true)
    expect(catchUp.isOver(new Map([...position, ['x/usage', 0]]))).to.equal(true)
  })
})

describe('a position in an event stream (the last revision of each sequence of changes)', () => {
  it('is joined with another position by taking the higher revision of each sequence', () => {
    const joined = join(
      new Map([
        ['a', 1],
        ['b', 5],
      ]),
      new Map([
        ['b', 3],
        ['c', 2],
      ]),
    )
    expect([...joined].sort()).to.deep.equal([
      ['a', 1],
      ['b', 5],
      ['c', 2],
    ])
  })

  it('includes another position unless this other position has a later revision of a journal or a host record', () => {
    const position = new Map([['x/journal/e', 5]])
    for (const [base, included] of [
      [[['x/journal/e', 5]], true],
      [[['x/journal/e', 6]], false],
      [[['x/record', 1]], false],
      [[['x/usage', 9]], true],
      [[['x/online', 9]], true],
    ] as const)
      expect(includes(position, new Map(base)), base.join()).to.equal(included)
  })
})
