import { expect } from 'chai'
import type { ChangeMark } from '../fleet/change-mark.js'
import { findPosition, planOrder, segmentSize, type OrderEntry } from './order.js'
import { markAt, type Position } from './positions.js'
import type { RingEntry } from './ring.js'

const at = (revision: number, part = 0): number => markAt({ lane: '', revision }, part).at
const ringOf = (marks: readonly (ChangeMark | undefined)[], first: number) => ({
  at: (number: number): RingEntry => {
    const mark = marks[number - first]
    return { number, event: undefined, mark: mark && markAt(mark, 0) }
  },
})
const x = (revision: number): ChangeMark => ({ lane: 'x/journal/e', revision })
const y = (revision: number): ChangeMark => ({ lane: 'y/journal/e', revision })

/** Returns the revision of each lane, or undefined. */
const shown = (position: Position | undefined) =>
  position && Object.fromEntries([...position].map(([lane, value]) => [lane, value / at(1)]))

describe('the recorded order of events', () => {
  const marks = [x(5), y(7), undefined, x(6), { ...x(9), isPartial: true as const }]
  const entries = planOrder(ringOf(marks, 1), {
    from: 1,
    to: 6,
    base: new Map([['x/journal/e', at(4)]]),
    isFirst: true,
  })

  for (const [number, position] of [
    [0, { 'x/journal/e': 4 }],
    [1, { 'x/journal/e': 5 }],
    [2, { 'x/journal/e': 5, 'y/journal/e': 7 }],
    [3, { 'x/journal/e': 5, 'y/journal/e': 7 }],
    [4, { 'x/journal/e': 6, 'y/journal/e': 7 }],
    // A change in a complete report does not advance the position, because earlier changes may follow it.
    [5, { 'x/journal/e': 6, 'y/journal/e': 7 }],
    [6, undefined],
  ] as const)
    it(`gives the position of a client after ${number} events`, () =>
      expect(shown(findPosition(entries, number))).to.deep.equal(position))

  it('can be stored in parts, but gives no position after a missing part', () => {
    const second = planOrder(ringOf([x(8)], 6), { from: 6, to: 7, base: new Map(), isFirst: false })
    const third = planOrder(ringOf([y(8)], 7), { from: 7, to: 8, base: new Map(), isFirst: false })
    expect(shown(findPosition([...entries, ...second, ...third], 7))).to.include({ 'x/journal/e': 8, 'y/journal/e': 8 })
    expect(findPosition([...entries, ...third], 7)).to.equal(undefined)
    expect(findPosition(second, 6)).to.equal(undefined)
  })

  it('has a complete position at the start of each segment, so that earlier segments are not needed', () => {
    const first = segmentSize - 2
    const parts = planOrder(ringOf([x(1), x(2), x(3)], first), {
      from: first,
      to: first + 3,
      base: new Map(),
      isFirst: false,
    })
    expect(parts.map(({ from, to, base }) => [from, to, base !== undefined])).to.deep.equal([
      [first, segmentSize, false],
      [segmentSize, segmentSize + 1, true],
    ])
    expect(shown(findPosition(parts.slice(1), segmentSize))).to.deep.equal({ 'x/journal/e': 3 })
  })

  it('gives the position before the first event even if there are no events yet', () => {
    const empty: OrderEntry[] = planOrder(ringOf([], 1), { from: 1, to: 1, base: new Map([['a', 3]]), isFirst: true })
    expect(findPosition(empty, 0)).to.deep.equal(new Map([['a', 3]]))
  })

  it('gives no revisions of a removed host, or of a journal that its host has replaced', () => {
    const changes = [x(1), { lane: 'x/record', revision: 2 }, { lane: 'x/journal/f', revision: 3 }, y(1)]
    const removal = { lane: 'x/removed', revision: 2 }
    const all = planOrder(ringOf([...changes, removal], 1), { from: 1, to: 6, base: new Map(), isFirst: true })
    expect(shown(findPosition(all, 4))).to.deep.equal({ 'x/record': 2, 'x/journal/f': 3, 'y/journal/e': 1 })
    expect(shown(findPosition(all, 5))).to.deep.equal({ 'y/journal/e': 1, 'x/removed': 2 })
  })
})
