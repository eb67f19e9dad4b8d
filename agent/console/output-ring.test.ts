import { expect } from 'chai'
import fc from 'fast-check'
import { OutputRing } from './output-ring.js'

function all(ring: OutputRing, from = ring.start): string {
  let text = ''
  for (let at = from; at < ring.end;) {
    const part = ring.read(at, 1000)
    text += part.toString('latin1')
    at += part.length
  }
  return text
}

describe('the stored output of a console', () => {
  it('keeps its newest bytes and their offsets, up to its capacity', () => {
    const writes = fc.array(fc.string({ unit: 'binary-ascii', maxLength: 9000 }), { maxLength: 12 })
    fc.assert(
      fc.property(writes, fc.integer({ min: 1, max: 20_000 }), (texts, capacity) => {
        const ring = new OutputRing(capacity)
        for (const text of texts) ring.push(Buffer.from(text, 'latin1'))
        const whole = texts.join('')
        expect(ring.end).to.equal(whole.length)
        expect(ring.end - ring.start).to.equal(Math.min(whole.length, capacity))
        expect(all(ring) === whole.slice(ring.start)).to.equal(true)
      }),
    )
  })

  it('does not change parts that a reader has already received', () => {
    const ring = new OutputRing(10)
    ring.push(Buffer.from('abcdefgh'))
    const read = ring.read(0, 8)
    for (let n = 0; n < 10_000; n++) ring.push(Buffer.from('XXXXXXXX'))
    expect(read.toString()).to.equal('abcdefgh')
  })

  for (const [name, text, offset, within, expected] of [
    ['from the beginning of the first line after the requested offset', 'ab\ncd\n', 0, 10, 3],
    ['from the requested offset if no line ends after this offset', 'abcd', 1, 10, 1],
    ['from the requested offset if no line begins within the permitted distance after it', 'abcdefgh\n', 0, 4, 0],
    [
      'from the beginning of the first line after the requested offset even if this line is in a later block of the buffer',
      `${'x'.repeat(9000)}\nrest`,
      100,
      10_000,
      9001,
    ],
  ] as const)
    it(`is replayed ${name}`, () => {
      const ring = new OutputRing(100_000)
      ring.push(Buffer.from(text))
      expect(ring.findLine(offset, within)).to.equal(expected)
    })
})
