import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { pino } from 'pino'
import { createApp, type AppOptions } from './app.js'

const reply = { status: 200, headers: {}, body: 'ok' }

describe('the HTTP interface while it cannot apply changes of other gateways', () => {
  let server: Server
  let waits: number
  beforeEach(async () => {
    waits = 0
    const current = (): Promise<void> => {
      waits++
      return new Promise(() => undefined)
    }
    const app = createApp({
      routes: [],
      pages: ['/healthz', '/readyz', '/other'].map((path) => ({ path, handle: () => reply })),
      access: { shared: { current }, addresses: { enter: () => undefined } },
      policies: { judge: () => ({ address: '127.0.0.1', allowed: true, secure: false }) },
      openSockets: { note: () => undefined },
      tls: { hsts: undefined },
      metrics: { observe: () => undefined },
      log: pino({ level: 'silent' }),
    } as unknown as AppOptions)
    const handle = app.callback()
    server = createServer((request, response) => void handle(request, response)).listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  const urlOf = (path: string): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  const statusOf = async (path: string): Promise<number | undefined> => {
    const request = get(urlOf(path), { agent: false, timeout: 5000 })
    request.on('timeout', () => request.destroy(new Error('no answer')))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    return response.statusCode
  }

  for (const path of ['/healthz', '/readyz', '/healthz?from=monitoring'])
    it(`answers a request for ${path} immediately`, async () => {
      expect(await statusOf(path)).to.equal(200)
      expect(waits).to.equal(0)
    })

  it('delays the answers to all other requests', async () => {
    const request = get(urlOf('/other'), { agent: false }).on('error', () => undefined)
    while (waits === 0) await new Promise(setImmediate)
    request.destroy()
  })
})
