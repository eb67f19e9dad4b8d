import { Agent, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'chai'
import Koa from 'koa'
import { pino } from 'pino'
import { waitFor } from '../../test/support/wait.js'
import { startHttpServer, type HttpServer } from './server.js'

const upgrades = { matches: () => false, answer: () => Promise.resolve() }

describe('an HTTP server that drains or closes its connections', () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let server: HttpServer
  let release: () => void
  let waiting = 0

  beforeEach(async () => {
    waiting = 0
    const held = new Promise<void>((resolve) => (release = resolve))
    const app = new Koa().use(async (ctx) => {
      waiting++
      if (ctx.path === '/slow') await held
      ctx.body = ctx.path
    })
    const options = { listen: { host: '127.0.0.1', port: 0 }, log: pino({ level: 'silent' }) }
    server = await startHttpServer({ app, upgrades }, options)
  })
  afterEach(async () => {
    agent.destroy()
    release()
    await server.connections.close(0)
  })

  const request = (path: string, through: Agent | false) =>
    new Promise<IncomingMessage & { port?: number | undefined }>((resolve, reject) => {
      const taken = (response: IncomingMessage) => {
        const { localPort: port } = response.socket
        response.resume().once('end', () => resolve(Object.assign(response, { port })))
      }
      get(server.url + path, { agent: through }, taken).on('error', reject)
    })

  it('ends each connection with its next answer during a drain, but still accepts new connections', async () => {
    const first = await request('/', agent)
    expect(first.headers.connection).to.equal('keep-alive')
    const drained = server.connections.drain(60_000)
    const second = await request('/', agent)
    expect(second.headers.connection).to.equal('close')
    expect(second.port).to.equal(first.port)
    await drained
    expect((await request('/', false)).statusCode).to.equal(200)
  })

  it('drains no longer than the given time, even if a client opens a connection and sends no request', async () => {
    await request('/', agent)
    const [socket] = Object.values(agent.freeSockets).flat()
    await server.connections.drain(100)
    expect(socket?.destroyed).to.equal(false)
    await server.connections.close(60_000)
    await waitFor(() => socket?.destroyed)
  })

  it('waits for running requests, and announces the end of the connection in their answers', async () => {
    const slow = request('/slow', agent)
    await waitFor(() => waiting === 1)
    const closed = server.connections.close(60_000)
    release()
    expect((await slow).headers.connection).to.equal('close')
    await closed
  })

  it('answers all pipelined requests before it ends the connection', async () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    let text = ''
    let isEnded = false
    socket.on('data', (chunk: Buffer) => (text += chunk.toString())).on('end', () => (isEnded = true))
    socket.write('GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /1 HTTP/1.1\r\nHost: x\r\n\r\n')
    await waitFor(() => waiting === 1)
    const drained = server.connections.drain(60_000)
    socket.write('GET /2 HTTP/1.1\r\nHost: x\r\n\r\n')
    await new Promise((resolve) => setTimeout(resolve, 50)) // gives the third request time to arrive
    release()
    await waitFor(() => isEnded)
    await drained
    expect(text.match(/HTTP\/1.1 200/g)).to.have.length(3)
    expect(text.match(/Connection: close/g)).to.have.length(1)
  })

  it('closes connections without a request long before the end of the grace period', async () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    let isClosed = false
    socket.on('close', () => (isClosed = true))
    await waitFor(() => !socket.connecting)
    await request('/', false)
    await server.connections.close(60_000)
    await waitFor(() => isClosed)
  })
})
