import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleLab, ownProtocol } from '../../support/gateway/console-lab.js'
import { waitFor } from '../../support/wait.js'

/** This number of consoles exceeds the limit for one caller and one guest. */
const tries = 7

describe('the opening of a console', () => {
  let lab: ConsoleLab
  let guest: Guest
  before(async () => {
    lab = await ConsoleLab.start()
  })
  after(() => lab.close())
  beforeEach(async () => {
    guest = await lab.addGuest()
  })
  afterEach(() => lab.endAll())

  describe('fails with 400', () => {
    /** Sends a handshake with these headers. @returns everything that the server sends until it closes */
    const ask = async (ticket: string, headers: Record<string, string> = {}): Promise<string> => {
      const { hostname, port, host, origin } = new URL(lab.gateway.url)
      const all = {
        Host: host,
        Origin: origin,
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': '13',
        'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
        ...headers,
      }
      const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
      const path = `/api/v1/ssh?container=${guest.name}&ticket=${ticket}`
      const socket = connect(Number(port), hostname)
      socket.write([`GET ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n'))
      return text(socket)
    }

    for (const [name, headers] of [
      ['WebSocket version', { 'Sec-WebSocket-Version': '99' }],
      ['WebSocket key', { 'Sec-WebSocket-Key': 'short' }],
    ] as const)
      it(`if the ${name} is wrong, and the ticket stays valid`, async () => {
        const ticket = await lab.ticket(guest.name)
        for (let n = 0; n < tries; n++) {
          const answer = await ask(ticket, headers)
          expect(answer).to.match(/^HTTP\/1\.1 400 /)
          expect(answer).to.contain('"invalid_request"')
        }
        const protocols = [ownProtocol, `berth-ticket.${ticket}`]
        await lab.connect('/api/v1/ssh', { protocols, query: { container: guest.name } }).ready()
      })

    for (const protocol of ['binary', ownProtocol])
      it(`if the client sends the subprotocol ${protocol} twice, and the attempt does not count as an open console`, async () => {
        for (let n = 0; n < tries; n++) {
          const answer = await ask(await lab.ticket(guest.name), {
            'Sec-WebSocket-Protocol': `${protocol}, ${protocol}`,
          })
          expect(answer).to.match(/^HTTP\/1\.1 400 /)
        }
        await waitFor(() => lab.gateway.api.consoles.size === 0, { what: 'no slot is taken' })
        await lab.opened(guest)
      })
  })

  describe('at the limit of open consoles', () => {
    it('is refused if the caller has five consoles, or all callers together have ten in the container', async () => {
      const clients = []
      for (let n = 0; n < 5; n++) clients.push((await lab.opened(guest)).client)
      const refused = await lab.open(guest.name)
      expect(await refused.ended()).to.deep.equal({ code: 4429, reason: 'too_many' })
      const key = await lab.gateway.makeKey({ scopes: ['terminal:ssh'] })
      for (let n = 0; n < 5; n++) await lab.opened(guest, { key })
      const third = await lab.gateway.makeKey({ scopes: ['terminal:ssh'] })
      expect((await (await lab.open(guest.name, { key: third })).ended()).code).to.equal(4429)
      clients[0]!.say({ type: 'close' })
      await clients[0]!.ended()
      await lab.opened(guest, { key: third })
    })

    it('is possible if it replaces a console whose connection is lost', async () => {
      const { client, terminal } = await lab.opened(guest)
      for (let n = 0; n < 9; n++) {
        const key = n < 4 ? undefined : await lab.gateway.makeKey({ scopes: ['terminal:ssh'] })
        await lab.opened(guest, key === undefined ? {} : { key })
      }
      client.socket.terminate()
      await waitFor(() => lab.gateway.api.consoles.size === 9, { what: 'left' })
      await lab.opened(guest)
      expect(terminal.closed).to.equal(true)
    })
  })

  it('is possible only at the endpoint for consoles, and other endpoints ignore the header Upgrade', async () => {
    const body = JSON.stringify({ container_name: guest.name })
    const { hostname, port } = new URL(lab.gateway.url)
    const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
      const sent = httpRequest(
        {
          hostname,
          port,
          method: 'POST',
          path: '/api/v1/ssh-ticket',
          headers: {
            'x-api-key': lab.gateway.adminKey,
            'content-type': 'application/json',
            connection: 'Upgrade, HTTP2-Settings',
            upgrade: 'h2c',
            'http2-settings': 'AAMAAABkAARAAAAAAAIAAAAA',
            'content-length': Buffer.byteLength(body),
          },
        },
        (response) => {
          let answered = ''
          response.on('data', (chunk: Buffer) => (answered += chunk.toString()))
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text: answered }))
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
    expect(answer.status, answer.text).to.equal(200)
    const elsewhere = lab.connect('/api/v1/containers')
    expect(await elsewhere.refusal()).to.deep.equal({ status: 401, code: 'unauthorized' })
  })

  describe('with the earlier console protocol', () => {
    it('accepts the ticket as the subprotocol, announces the shell, and accepts input in five forms', async () => {
      const ticket = await lab.ticket(guest.name)
      const client = lab.connect('/api/ssh', {
        protocols: [`clicd-ticket.${ticket}`],
        query: { container: guest.name, ticket },
      })
      await waitFor(() => client.texts.some((line) => line.includes('SSH shell ready')), { what: 'the line' })
      expect(client.socket.protocol).to.equal(`clicd-ticket.${ticket}`)
      const terminal = lab.terminal(guest)
      client.say({ type: 'resize', cols: 90, rows: 20 })
      client.say({ type: 'resize', cols: -1, rows: 0 })
      client.say({ type: 'input', data: 'a' })
      client.say({ type: 'stdin', data: 'b' })
      client.say({ type: 'data', data: 'c' })
      client.socket.send('d{"type":"x"}')
      client.type('e')
      await waitFor(() => terminal.input === 'abcd{"type":"x"}e', { what: () => terminal.input })
      expect(terminal.sizes).to.deep.equal(['80x24', '90x20'])
    })

    it('allows 5 MB of output without any acknowledgement', async () => {
      const ticket = await lab.ticket(guest.name)
      const client = lab.connect('/api/v1/ssh', { query: { container: guest.name, ticket } })
      await waitFor(() => client.texts.length === 2, { what: 'ready' })
      const terminal = lab.terminal(guest)
      const whole = 5_000_000
      let shown = 0
      await waitFor(
        () => {
          while (!terminal.paused && shown < whole) {
            terminal.show(Buffer.alloc(10_000, 97))
            shown += 10_000
          }
          return client.received === whole
        },
        { intervalMs: 1, what: () => `all, ${client.received}` },
      )
    })

    it('creates a terminal that ends with its connection', async () => {
      const ticket = await lab.ticket(guest.name)
      const client = lab.connect('/api/v1/ssh', { query: { container: guest.name, ticket } })
      await waitFor(() => client.texts.length === 2, { what: 'ready' })
      client.socket.terminate()
      await waitFor(() => lab.terminal(guest).closed, { what: 'closed' })
    })

    it('fails with an HTTP status if the ticket is missing or invalid', async () => {
      const stopped = await lab.addGuest({ status: 'stopped' })
      const bad = lab.connect('/api/ssh', { query: { container: guest.name, ticket: 'x' } })
      expect(await bad.refusal()).to.deep.equal({ status: 401, code: 'unauthorized' })
      const none = lab.connect('/api/ssh', { query: { container: guest.name } })
      expect(await none.refusal()).to.deep.equal({ status: 401, code: 'unauthorized' })
      const malformed = lab.connect('/api/ssh')
      expect(await malformed.refusal()).to.deep.equal({ status: 400, code: 'invalid_request' })
      const { status, body } = await lab.gateway.request('POST', '/ssh-ticket', {
        body: { container: stopped.name },
      })
      expect([status, body.code]).to.deep.equal([409, 'invalid_state'])
    })
  })
})
