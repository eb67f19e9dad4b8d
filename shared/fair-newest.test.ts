import { expect } from 'chai'
import { fairlyNewest } from './fair-newest.js'

describe('the fair choice of the newest entries of several owners', () => {
  for (const [what, list, most, kept] of [
    ['keeps all entries if there is space for them', 'a1 b1', 2, 'a1 b1'],
    ['drops the oldest entries if all entries have the same owner', 'a3 a2 a1', 2, 'a3 a2'],
    [
      'keeps the only entry of one owner, and drops the oldest entries of an owner with many entries',
      'a4 a3 a2 a1 b1',
      3,
      'a4 a3 b1',
    ],
    ['drops the oldest entry if two owners have equally many entries', 'a2 b2 a1 b1', 3, 'a2 b2 a1'],
    ['is empty if there is no space', 'a1', 0, ''],
  ] as const)
    it(what, () => expect(fairlyNewest(list.split(' '), (entry) => entry[0]!, most).join(' ')).to.equal(kept))
})
