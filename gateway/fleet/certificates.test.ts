import { expect } from 'chai'
import { addSerial } from './certificates.js'

describe('the accepted serial numbers of a host’s certificates', () => {
  const many = Array.from({ length: 16 }, (_, n) => `s${n}`)
  for (const [name, have, inUse, expected] of [
    ['include the old and the new serial number after the first renewal', ['s0'], 's0', ['s0', 'new']],
    ['include all previous serial numbers while there are fewer than 16', ['s0', 's1'], undefined, ['s0', 's1', 'new']],
    ['include the serial number in use, even after many failed renewals', many, 's0', ['s0', ...many.slice(2), 'new']],
    [
      'lose the oldest serial number if there are 16 and the newest serial number is in use',
      many,
      's15',
      ['s15', ...many.slice(1, 15), 'new'],
    ],
    [
      'lose the oldest serial number if there are 16 and no serial number is in use',
      many,
      undefined,
      [...many.slice(1), 'new'],
    ],
    [
      'lose the oldest serial number if there are 16 and the serial number in use is not among them',
      many,
      'x',
      [...many.slice(1), 'new'],
    ],
  ] as const)
    it(name, () => expect(addSerial(have, 'new', inUse)).to.deep.equal(expected))
})
