import { expect } from 'chai'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net'
import { BerthClient } from '../berth-client.js'
import { UnexpectedAnswerError, UnreachableError } from './errors.js'
import { defaultLimits, exchange } from './exchange.js'

const request = { method: 'GET', path: '/hosts' }
/** Time limit in ms of steps that must not time out in a test. */
const longMs = 60_000

describe('a server that does not answer as it should', () => {
  const opened: Server[] = []
  afterEach(() => opened.splice(0).forEach((server) => server.close()))

  /** @returns the URL of the server */
  async function listen(server: Server, protocol = 'http'): Promise<string> {
    opened.push(server)
    server.on('connection', (socket) => server.once('close', () => socket.destroy()))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return `${protocol}://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const serve = (answer: RequestListener): Promise<string> => listen(createServer(answer))

  /** Resolves with the error with which the work fails. */
  const failureOf = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )

  async function readToEnd(parts: AsyncIterable<unknown>): Promise<void> {
    for await (const part of parts) expect(part).to.have.lengthOf.above(0)
  }

  it('is unreachable if it does not finish the connection, and the error states that the request was not sent', async () => {
    const url = await listen(createTcpServer(), 'https')
    const limits = { connectMs: 50, answerMs: longMs, uploadMs: longMs }
    const error = await failureOf(exchange({ url, key: '' }, request, { idempotencyKey: '', limits }))
    expect(error).to.be.instanceOf(UnreachableError).and.to.include({ wasSent: false })
  })

  it('is unreachable if it sends no answer, and the error states that the request was sent', async () => {
    const url = await serve(() => undefined)
    const limits = { connectMs: longMs, answerMs: 50, uploadMs: longMs }
    const error = await failureOf(exchange({ url, key: '' }, request, { idempotencyKey: '', limits }))
    expect(error).to.be.instanceOf(UnreachableError).and.to.include({ wasSent: true })
  })

  it('is unreachable if its answer stalls', async () => {
    const url = await serve((_, response) => void response.write('{"data":'))
    const limits = { connectMs: longMs, answerMs: longMs, uploadMs: longMs }
    const { parts } = await exchange({ url, key: '' }, request, { idempotencyKey: '', limits, maxSilenceMs: 50 })
    const error = await failureOf(readToEnd(parts))
    expect(error).to.be.instanceOf(UnreachableError).and.to.include({ wasSent: true })
  })

  describe('during an upload', () => {
    /** More bytes than the buffers of the connection take. */
    const bytes = 32 * 1024 * 1024
    const upload = { type: 'application/octet-stream', bytes, parts: [Buffer.alloc(bytes)] as never }
    const uploading = { method: 'POST', path: '/containers/import', upload }

    it('waits longer for traffic than for other answers', async () => {
      const url = await serve((received, response) => {
        received.pause()
        // Other requests fail after 1 ms without traffic. The shorter timer always ends first.
        setTimeout(() => received.resume().once('end', () => response.end('{}')), 500)
      })
      const limits = { connectMs: longMs, answerMs: 1, uploadMs: longMs }
      const { status } = await exchange({ url, key: '' }, uploading, { idempotencyKey: '', limits })
      expect(status).to.equal(200)
    })

    it('is unreachable if it reads nothing for too long', async () => {
      const url = await serve((received) => void received.pause())
      const limits = { connectMs: longMs, answerMs: longMs, uploadMs: 50 }
      const error = await failureOf(exchange({ url, key: '' }, uploading, { idempotencyKey: '', limits }))
      expect(error).to.be.instanceOf(UnreachableError).and.to.include({ wasSent: true })
    })

    it('waits more than 40 minutes while the host works', () => {
      expect(defaultLimits.uploadMs).to.be.above(40 * 60_000)
    })
  })

  it('is no longer read as soon as its answer exceeds the limit, whatever the status of the answer', async () => {
    const endless: RequestListener = ({ url = '' }, response) => {
      response.statusCode = url.endsWith('/hosts') ? 200 : 502
      const write = (): void => void (response.destroyed || response.write(Buffer.alloc(64 * 1024, '0'), write))
      write()
    }
    const berth = new BerthClient({ url: await serve(endless), key: '', maxAnswerBytes: 100_000 })
    const error = await failureOf(berth.send(request))
    expect(error).to.be.instanceOf(UnexpectedAnswerError)
    expect((error as Error).message).to.match(/ sent an answer of more than 100000 bytes$/)
    expect(await failureOf(berth.send({ method: 'GET', path: '/tasks' }))).to.include({ code: 'http_502' })
  })
})
