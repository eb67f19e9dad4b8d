import { expect } from 'chai'
import fc from 'fast-check'
import { FrameReader, frameOf } from './framing.js'

function read(reader: FrameReader, chunk: Buffer): string[] {
  const got: string[] = []
  reader.push(chunk, (content, isBytes) => got.push(textOf(content, isBytes)))
  return got
}

function textOf(content: Uint8Array, isBytes: boolean): string {
  return `${isBytes ? 'bytes' : 'message'} ${Buffer.from(content).toString('hex')}`
}

describe('frames of a byte stream', () => {
  it('are read correctly however the stream is split into chunks', () => {
    const frames = fc.array(fc.tuple(fc.uint8Array({ maxLength: 300 }), fc.boolean()), { maxLength: 8 })
    fc.assert(
      fc.property(frames, fc.infiniteStream(fc.integer({ min: 1, max: 50 })), (sent, cuts) => {
        const all = Buffer.concat(sent.map(([content, isBytes]) => frameOf(content, isBytes)))
        const reader = new FrameReader()
        const got: string[] = []
        for (let at = 0; at < all.length;) {
          const length = cuts.next().value
          got.push(...read(reader, all.subarray(at, at + length)))
          at += length
        }
        expect(got).to.deep.equal(sent.map(([content, isBytes]) => textOf(content, isBytes)))
      }),
    )
  })

  const bad = [
    ['announces too many bytes, before the content arrives', [0, 1, 0x84, 0]],
    ['names an unknown kind of frame', [2, 0, 0, 1]],
  ] as const
  for (const [what, head] of bad)
    it(`are refused if their header ${what}`, () => {
      expect(() => read(new FrameReader(), Buffer.from(head))).to.throw(RangeError)
    })
})
