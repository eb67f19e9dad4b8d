import { expect } from 'chai'
import { findFullRoom, type Holding } from './fair-room.js'

const room = { most: 10, perShare: 5, reserve: 2 }
/** `a5 b3`: five of a, three of b. */
const held = (text: string): Holding[] =>
  (text === '' ? [] : text.split(' ')).flatMap((part) => {
    const [, share = '', count] = /^([a-z]+)(\d+)$/.exec(part) ?? []
    return Array.from({ length: Number(count) }, () => ({ share, unlimited: share === 'admin' }))
  })

describe('shared room', () => {
  for (const [what, before, share, full] of [
    ['has room for the first', '', 'a', undefined],
    ['bounds one caller', 'a5', 'a', 'share'],
    ['has room for the next caller', 'a5', 'b', undefined],
    ['keeps a reserve from callers that have some', 'a5 b3', 'b', 'room'],
    ['lets a caller without any into half of the reserve', 'a5 b3', 'c', undefined],
    ['keeps the other half from everybody who is limited', 'a5 b3 c1', 'd', 'room'],
    ['lets an unlimited caller use all', 'a5 b3 c1', 'admin', undefined],
    ['keeps no reserve that unlimited callers use already', 'admin5 a4', 'a', undefined],
    ['bounds an unlimited caller by the room', 'admin10', 'admin', 'room'],
  ] as const)
    it(what, () => {
      const one = { share, unlimited: share === 'admin' }
      expect(findFullRoom(held(before), one, room)).to.equal(full)
    })
})
