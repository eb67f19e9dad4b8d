import { expect } from 'chai'
import { addSerial } from './certificates.js'

describe('serial numbers of a host', () => {
  const many = Array.from({ length: 16 }, (_, n) => `s${n}`)
  for (const [name, have, inUse, expected] of [
    ['the first renewal', ['s0'], 's0', ['s0', 'new']],
    ['all are kept while there are few', ['s0', 's1'], undefined, ['s0', 's1', 'new']],
    ['the one in use stays, even after many failed installations', many, 's0', ['s0', ...many.slice(2), 'new']],
    ['the newest is in use', many, 's15', ['s15', ...many.slice(1, 15), 'new']],
    ['none is in use', many, undefined, [...many.slice(1), 'new']],
    ['the one in use is unknown', many, 'x', [...many.slice(1), 'new']],
  ] as const)
    it(name, () => expect(addSerial(have, 'new', inUse)).to.deep.equal(expected))
})
