import { expect } from 'chai'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { waitFor } from '../test/support/wait.js'
import { FramedSocket } from './framed-socket.js'
import { frameOf } from './framing.js'

/** The test connects a framed socket to a plain socket, which it controls. */
describe('a framed connection', () => {
  let framed: FramedSocket
  let other: Socket
  let heard: string[]
  let ended: { error: Error | undefined } | undefined
  let refuse = false
  beforeEach(async () => {
    ;[heard, ended, refuse] = [[], undefined, false]
    const server = createServer((socket) => {
      const onFrame = (bytes: Buffer): void => {
        if (refuse) throw new Error('not understood')
        heard.push(bytes.toString())
      }
      framed = new FramedSocket(socket, { onFrame, onEnd: (error) => (ended = { error }) }, 50)
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    other = connect((server.address() as AddressInfo).port, '127.0.0.1')
    other.on('error', () => undefined)
    await new Promise((done) => server.once('connection', done))
    server.close()
  })
  afterEach(() => other.destroy())

  it('delivers messages in order and hides keep-alive frames', async () => {
    for (const text of ['one', '', 'two', '']) other.write(frameOf(Buffer.from(text)))
    await waitFor(() => heard.length === 2)
    expect(heard).to.deep.equal(['one', 'two'])
  })

  it('sends all pending data before it ends', async () => {
    let got = ''
    other.on('data', (chunk: Buffer) => (got += chunk.toString()))
    framed.send(frameOf(Buffer.from('last')))
    framed.end()
    await waitFor(() => ended !== undefined && got !== '')
    expect([got, ended?.error]).to.deep.equal(['\0\0\0\u0004last', undefined])
  })

  for (const [what, bytes] of [
    ['after a frame that is too long', Buffer.from('00ffffff', 'hex')],
    ['if its reader cannot decode a frame', frameOf(Buffer.from('x'))],
  ] as const)
    it(`ends ${what}`, async () => {
      refuse = true
      other.write(bytes)
      await waitFor(() => ended !== undefined)
      expect(ended?.error).to.be.an('error')
      expect(heard).to.deep.equal([])
    })

  it('sends keep-alive frames, and ends if it receives no keep-alive frames', async () => {
    let signs = 0
    other.on('data', (chunk: Buffer) => (signs += chunk.length / 4))
    await waitFor(() => ended !== undefined)
    expect(ended?.error?.message).to.equal('the other side of the connection does not answer')
    expect(signs).to.equal(2)
  })

  it('ends within the time limit even if the last bytes of a closed peer are still unread', async () => {
    framed.pause()
    other.write(frameOf(Buffer.from('late')))
    other.end()
    framed.end()
    await waitFor(() => ended !== undefined)
  })

  it('ends within the time limit even if the peer does not close its side', async () => {
    other.pause() // the peer does not notice the end
    const signs = setInterval(() => other.write(frameOf(Buffer.alloc(0))), 20)
    framed.end() // the next call replaces the default limit by a shorter one
    framed.end(100)
    await waitFor(() => ended !== undefined).finally(() => clearInterval(signs))
  })

  it('stays open without keep-alive frames while its reader pauses', async () => {
    const startedMs = performance.now()
    framed.pause()
    await waitFor(() => performance.now() - startedMs > 300)
    expect(ended).to.equal(undefined)
    framed.resume()
    await waitFor(() => ended !== undefined)
  })
})
