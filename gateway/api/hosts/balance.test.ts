import { expect } from 'chai'
import { loadRow } from './balance.js'

describe('the load of a host in a suggested move', () => {
  for (const [name, load, row] of [
    ['is rounded to percent', { before: 0.614, after: 0.5 }, { before: 61, after: 50 }],
    ['can exceed 100 %', { before: 1.2, after: 0 }, { before: 120, after: 0 }],
    ['is null if the size of the host is not known', { before: Infinity, after: NaN }, { before: null, after: null }],
  ] as const)
    it(name, () => expect(loadRow(load)).to.deep.equal(row))
})
