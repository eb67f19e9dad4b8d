import { expect } from 'chai'
import { fairlyNewest } from './fair-newest.js'

describe('newest entries of a shared list', () => {
  for (const [what, list, most, kept] of [
    ['has all entries that fit', 'a1 b1', 2, 'a1 b1'],
    ['omits the oldest entries of one caller', 'a3 a2 a1', 2, 'a3 a2'],
    ['keeps the entries of others', 'a4 a3 a2 a1 b1', 3, 'a4 a3 b1'],
    ['omits the oldest of callers with equally many entries', 'a2 b2 a1 b1', 3, 'a2 b2 a1'],
    ['is empty without space', 'a1', 0, ''],
  ] as const)
    it(what, () => expect(fairlyNewest(list.split(' '), (entry) => entry[0]!, most).join(' ')).to.equal(kept))
})
