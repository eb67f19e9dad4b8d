import { expect } from 'chai'
import { percentOf } from './percent.ts'

describe('the percentage of a maximum', () => {
  for (const [value, max, percent] of [
    [0, 8, 0],
    [2, 8, 25],
    [12, 8, 150],
    [null, 8, undefined],
    [undefined, 8, undefined],
    [Number.NaN, 8, undefined],
    [0, 0, undefined],
    [3, Number.NaN, undefined],
    [3, Number.POSITIVE_INFINITY, 0],
  ] as const)
    it(`is ${percent ?? 'not known'} for ${value} of ${max}`, () => expect(percentOf(value, max)).to.equal(percent))
})
