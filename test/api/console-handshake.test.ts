import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { ConsoleLab, ownProtocol } from '../support/console-lab.js'
import { waitFor } from '../support/wait.js'

/** More than one caller may have of a guest. */
const tries = 7

describe('a bad handshake for a console', () => {
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

  /** @returns the answer, until the server closes */
  const ask = async (ticket: string, headers: Record<string, string> = {}): Promise<string> => {
    const { hostname, port, host, origin } = new URL(lab.gateway.url)
    const all = {
      ...{ Host: host, Origin: origin, Connection: 'Upgrade', Upgrade: 'websocket' },
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
    ['version', { 'Sec-WebSocket-Version': '99' }],
    ['key', { 'Sec-WebSocket-Key': 'short' }],
  ] as const)
    it(`of a wrong ${name} is refused, and the ticket stays`, async () => {
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
    it(`that offers ${protocol} twice takes no place of another console`, async () => {
      for (let n = 0; n < tries; n++) {
        const answer = await ask(await lab.ticket(guest.name), {
          'Sec-WebSocket-Protocol': `${protocol}, ${protocol}`,
        })
        expect(answer).to.match(/^HTTP\/1\.1 400 /)
      }
      await waitFor(() => lab.gateway.api.consoles.size === 0, { what: 'no place is taken' })
      await lab.opened(guest)
    })
})
