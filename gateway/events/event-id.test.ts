import { expect } from 'chai'
import { formatEventId, parseEventId } from './event-id.js'

const a = { epoch: '3f2a9c01b7de', number: 118 }
const b = { epoch: 'b', number: 0 }

describe('the id of an event', () => {
  for (const [name, text, numbers] of [
    ['with the position at one gateway', '3f2a9c01b7de.118', [a]],
    ['with positions at two gateways', 'b.0~3f2a9c01b7de.118', [b, a]],
  ] as const)
    it(`${name} is the same after it was formatted and parsed`, () => {
      expect(formatEventId(numbers)).to.equal(text)
      expect(parseEventId(text)).to.deep.equal(numbers)
    })

  for (const [name, text] of [
    ['no number', 'garbage'],
    ['an empty position', 'b.0~'],
    ['a number that is too long', `b.${'9'.repeat(16)}`],
    ['too many gateways', 'a.1~b.1~c.1~d.1~e.1'],
  ] as const)
    it(`is rejected if it has ${name}`, () => expect(parseEventId(text)).to.equal(undefined))
})
