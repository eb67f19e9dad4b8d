import { expect } from 'chai'
import fc from 'fast-check'
import { FrameReader, frameOf } from './framing.js'

const read = (reader: FrameReader, chunk: Buffer): string[] =>
  [...reader.push(chunk)].map((frame) => frame.toString('hex'))

describe('frames', () => {
  it('are what was sent, however the bytes are cut', () => {
    const frames = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 })
    fc.assert(
      fc.property(frames, fc.infiniteStream(fc.integer({ min: 1, max: 50 })), (sent, cuts) => {
        const all = Buffer.concat(sent.map(frameOf))
        const reader = new FrameReader()
        const got: string[] = []
        for (let at = 0; at < all.length;) {
          const length = cuts.next().value
          got.push(...read(reader, all.subarray(at, at + length)))
          at += length
        }
        expect(got).to.deep.equal(sent.map((frame) => Buffer.from(frame).toString('hex')))
      }),
    )
  })

  it('end with one that is too long, before its bytes are there', () => {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(97 * 1024)
    expect(() => read(new FrameReader(), length)).to.throw(RangeError)
  })
})
