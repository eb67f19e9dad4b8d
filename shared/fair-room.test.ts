import { expect } from 'chai'
import { findFullRoom, type Holding } from './fair-room.js'

const room = { most: 10, perShare: 5, reserve: 2 }
/** `a5 b3`: five of a, three of b. */
const held = (text: string): Holding[] =>
  (text === '' ? [] : text.split(' ')).flatMap((part) => {
    const [, share = '', count] = /^([a-z]+)(\d+)$/.exec(part) ?? []
    return Array.from({ length: Number(count) }, () => ({ share, unlimited: share === 'admin' }))
  })

describe('shared capacity', () => {
  for (const [what, before, share, full] of [
    ['accepts the first', '', 'a', undefined],
    ['limits one caller', 'a5', 'a', 'share'],
    ['accepts the next caller', 'a5', 'b', undefined],
    ['reserves capacity from callers that already have some', 'a5 b3', 'b', 'room'],
    ['gives half of the reserve to callers without any', 'a5 b3', 'c', undefined],
    ['reserves the other half for unlimited callers', 'a5 b3 c1', 'd', 'room'],
    ['lets an unlimited caller use all', 'a5 b3 c1', 'admin', undefined],
    ['has no reserve that unlimited callers already use', 'admin5 a4', 'a', undefined],
    ['limits an unlimited caller by the capacity', 'admin10', 'admin', 'room'],
  ] as const)
    it(what, () => {
      const one = { share, unlimited: share === 'admin' }
      expect(findFullRoom(held(before), one, room)).to.equal(full)
    })
})
