import { connect } from 'node:net'
import { expect } from 'chai'
import Koa from 'koa'
import { pino } from 'pino'
import { waitFor } from '../../test/support/wait.js'
import { startHttpServer } from './server.js'

describe('an HTTP server', () => {
  it('stops within its grace period even if a connection has too many unanswered requests', async () => {
    let requests = 0
    const app = new Koa().use(() => {
      requests++
      return new Promise<void>(() => undefined) // the request is never answered
    })
    const upgrades = { matches: () => false, answer: () => Promise.resolve() }
    const server = await startHttpServer(
      { app, upgrades },
      { listen: { host: '127.0.0.1', port: 0 }, log: pino({ level: 'silent' }) },
    )
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    let isClosed = false
    socket.on('error', () => undefined).on('close', () => (isClosed = true))
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(100))
    await waitFor(() => requests === 1)
    await server.connections.close(100)
    await waitFor(() => isClosed)
    expect(requests).to.equal(1)
  })
})
