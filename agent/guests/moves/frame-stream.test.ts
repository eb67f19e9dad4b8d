import { expect } from 'chai'
import { once } from 'node:events'
import { duplexPair } from 'node:stream'
import { frameOf } from '../../../shared/framing.js'
import { FrameStream } from './frame-stream.js'

const hourMs = 3_600_000
const empty = frameOf(Buffer.alloc(0))

describe('the stream of messages and data between two hosts', () => {
  it('ignores keep-alives between frames', async () => {
    const [near, far] = duplexPair()
    const stream = new FrameStream(near)
    far.write(Buffer.concat([empty, frameOf(Buffer.from('{"kind":"list"}')), empty, frameOf(Buffer.from('x'), true)]))
    expect(await stream.nextMessage()).to.deep.equal({ kind: 'list' })
    expect(await stream.next()).to.deep.equal({ content: Buffer.from('x'), isData: true })
  })

  it('contains keep-alives while there are no messages or data to send', async () => {
    const [near, far] = duplexPair()
    new FrameStream(near, { keepAliveMs: 5, silenceMs: hourMs })
    const [chunk] = (await once(far, 'data')) as [Buffer]
    expect(chunk.subarray(0, empty.length)).to.deep.equal(empty)
    near.destroy()
  })

  it('closes a connection on which no data arrives', async () => {
    const [near] = duplexPair()
    const stream = new FrameStream(near, { keepAliveMs: hourMs, silenceMs: 5 })
    const error: unknown = await stream.next().catch((cause: unknown) => cause)
    expect(error).to.be.instanceOf(Error)
    expect(near.destroyed).to.equal(true)
  })

  it('keeps a silent connection open while the receiver does not wait for a message', async () => {
    const [near, far] = duplexPair()
    const stream = new FrameStream(near, { keepAliveMs: hourMs, silenceMs: 50 })
    await new Promise((resolve) => setTimeout(resolve, 100))
    far.write(frameOf(Buffer.from('{}')))
    expect(await stream.nextMessage()).to.deep.equal({})
  })
})
