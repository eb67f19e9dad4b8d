import { expect } from 'chai'
import { outputRecord, ProgramOutputReader } from './program-output.js'

describe('the output of a program without a terminal', () => {
  const records = [
    outputRecord(1, Buffer.from('first ')),
    outputRecord(2, Buffer.from('error ')),
    outputRecord(1, Buffer.alloc(0)),
    outputRecord(1, Buffer.alloc(70_000, 'x')),
    outputRecord(2, Buffer.from('last')),
  ]
  const all = Buffer.concat(records)

  for (const size of [1, 3, 7, 4096, all.length])
    it(`keeps stdout and stderr apart in chunks of ${size} bytes`, () => {
      const reader = new ProgramOutputReader()
      const text = { 1: '', 2: '' }
      for (let at = 0; at < all.length; at += size)
        for (const { output, bytes } of reader.read(all.subarray(at, at + size))) text[output] += bytes.toString()
      expect(text).to.deep.equal({ 1: `first ${'x'.repeat(70_000)}`, 2: 'error last' })
    })

  it('refuses a record of an unknown output', () => {
    const record = Buffer.from([3, 0, 0, 1, 65])
    expect(() => new ProgramOutputReader().read(record)).to.throw(RangeError, 'unknown output')
  })
})
