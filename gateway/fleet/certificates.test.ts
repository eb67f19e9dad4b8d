import { expect } from 'chai'
import { addSerial } from './certificates.js'

describe('serial numbers of a host', () => {
  for (const [name, have, inUse, expected] of [
    ['the first renewal', ['a'], 'a', ['a', 'new']],
    ['the one in use stays, however often an installation failed', ['a', 'b', 'c'], 'a', ['a', 'c', 'new']],
    ['the newest is in use', ['a', 'b', 'c'], 'c', ['c', 'b', 'new']],
    ['none is in use', ['a', 'b', 'c'], undefined, ['b', 'c', 'new']],
    ['the one in use is not of them', ['a', 'b'], 'x', ['a', 'b', 'new']],
  ] as const)
    it(name, () => expect(addSerial(have, 'new', inUse)).to.deep.equal(expected))
})
