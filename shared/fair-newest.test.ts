import { expect } from 'chai'
import { fairlyNewest } from './fair-newest.js'

describe('newest entries of a shared list', () => {
  for (const [what, list, most, kept] of [
    ['has all that there is room for', 'a1 b1', 2, 'a1 b1'],
    ['leaves out the oldest of one', 'a3 a2 a1', 2, 'a3 a2'],
    ['leaves others what they have', 'a4 a3 a2 a1 b1', 3, 'a4 a3 b1'],
    ['leaves out the older of two that are equal', 'a2 b2 a1 b1', 3, 'a2 b2 a1'],
    ['is empty without room', 'a1', 0, ''],
  ] as const)
    it(what, () => expect(fairlyNewest(list.split(' '), (entry) => entry[0]!, most).join(' ')).to.equal(kept))
})
