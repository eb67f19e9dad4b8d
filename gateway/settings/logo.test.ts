import { expect } from 'chai'
import { crc32, deflateSync } from 'node:zlib'
import { maxLogoBytes, parseLogo } from './logo.js'

const signature = Buffer.from('89504e470d0a1a0a', 'hex')

function chunk(type: string, content: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), content])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(content.length, 0)
  frame.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
}

function header(width: number, height: number): Buffer {
  const content = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 6, 0, 0, 0])
  content.writeUInt32BE(width, 0)
  content.writeUInt32BE(height, 4)
  return chunk('IHDR', content)
}

const pixels = chunk('IDAT', deflateSync(Buffer.alloc(2 * (1 + 2 * 4))))
const end = chunk('IEND')
const plain = Buffer.concat([signature, header(2, 2), pixels, end])

describe('the logo of the provider', () => {
  it('is accepted if it is a PNG file', () => {
    const { bytes, width, height } = parseLogo(plain.toString('base64'))
    expect([width, height, bytes.equals(plain)]).to.deep.equal([2, 2, true])
  })

  it('is stored without metadata', () => {
    const parts = [header(2, 2), chunk('tEXt', Buffer.from('Comment\0<script>')), chunk('eXIf'), pixels, end]
    const { bytes } = parseLogo(Buffer.concat([signature, ...parts]).toString('base64'))
    expect(bytes.equals(plain)).to.equal(true)
  })

  const changed = Buffer.from(plain)
  changed[20] = 9
  const bomb = chunk('IDAT', deflateSync(Buffer.alloc(20_000_000)))
  for (const [name, file, reason] of [
    ['an SVG file', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'), 'must be a PNG file'],
    ['an empty file', Buffer.alloc(0), 'must be a PNG file'],
    ['a file without its end', plain.subarray(0, -1), 'damaged'],
    ['a file with data after its end chunk', Buffer.concat([plain, Buffer.from('<html>')]), 'damaged'],
    ['a second header', Buffer.concat([signature, header(2, 2), header(9999, 9999), pixels, end]), 'damaged'],
    ['a wrong checksum', changed, 'damaged'],
    ['no pixels', Buffer.concat([signature, header(2, 2), end]), 'damaged'],
    ['pixels that expand to 20 MB', Buffer.concat([signature, header(2, 2), bomb, end]), 'damaged'],
    ['too many pixels', Buffer.concat([signature, header(1025, 1), pixels, end]), 'at most 1024 x 1024'],
    ['a width of 0', Buffer.concat([signature, header(0, 2), pixels, end]), 'at most 1024 x 1024'],
    ['a large file', Buffer.alloc(maxLogoBytes + 1), 'at most 128 KiB'],
  ] as const)
    it(`is rejected: ${name}`, () => expect(() => parseLogo(file.toString('base64'))).to.throw(reason))

  it('is rejected if it is not base64', () => expect(() => parseLogo('data:image/png')).to.throw('must be base64'))
})
