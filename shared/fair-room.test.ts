import { expect } from 'chai'
import { findFullRoom, type Holding } from './fair-room.js'

const room = { most: 10, perShare: 5, reserve: 2 }
/** Parses a short notation: `a5 b3` stands for five consoles of caller a and three of caller b. */
const held = (text: string): Holding[] =>
  (text === '' ? [] : text.split(' ')).flatMap((part) => {
    const [, share = '', count] = /^([a-z]+)(\d+)$/.exec(part) ?? []
    return Array.from({ length: Number(count) }, () => ({ share, unlimited: share === 'admin' }))
  })

describe('the common limit of consoles for all callers', () => {
  for (const [what, before, share, full] of [
    ['accepts the first console', '', 'a', undefined],
    ['refuses a caller with as many consoles as the limit per caller', 'a5', 'a', 'share'],
    ['accepts a second caller when the first caller has reached its limit', 'a5', 'b', undefined],
    ['gives no console of the reserve to a caller that already has a console', 'a5 b3', 'b', 'room'],
    ['keeps half of the reserve for callers without a console', 'a5 b3', 'c', undefined],
    ['keeps the other half of the reserve for unlimited callers', 'a5 b3 c1', 'd', 'room'],
    ['lets an unlimited caller use the whole reserve', 'a5 b3 c1', 'admin', undefined],
    [
      'keeps no further reserve when unlimited callers have as many consoles as the reserve',
      'admin5 a4',
      'a',
      undefined,
    ],
    ['refuses an unlimited caller when the capacity is used up', 'admin10', 'admin', 'room'],
  ] as const)
    it(what, () => {
      const one = { share, unlimited: share === 'admin' }
      expect(findFullRoom(held(before), one, room)).to.equal(full)
    })
})
