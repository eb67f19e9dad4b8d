import { expect } from 'chai'
import { readOffer, type ConsoleOffer } from './offer.js'

const read = (target: string, protocols?: string): ConsoleOffer | undefined =>
  readOffer(new URL(target, 'http://localhost'), protocols)

describe('the parser of console requests', () => {
  for (const [name, target, protocols, expected] of [
    [
      'reads a ticket that is sent as a subprotocol',
      '/api/v1/ssh?container=a',
      'berth-ticket.T',
      { ticket: 'T', protocol: 'berth-ticket.T' },
    ],
    [
      'reads a ticket in a subprotocol with the prefix of another product',
      '/api/ssh?container=a',
      'clicd-ticket.T-_9',
      { ticket: 'T-_9', kind: 'ssh' },
    ],
    ['reads a ticket in the query', '/api/ssh?container=a&ticket=T', undefined, { ticket: 'T', protocol: undefined }],
    [
      'reads a ticket that is sent in the query and as a subprotocol',
      '/api/ssh?container=a&ticket=T',
      'x-ticket.T',
      { ticket: 'T' },
    ],
    [
      'ignores both tickets if the query and the subprotocol contain different tickets',
      '/api/ssh?container=a&ticket=T',
      'x-ticket.U',
      { ticket: undefined },
    ],
    ['accepts a request without a ticket', '/api/ssh?container=a', undefined, { ticket: undefined, isOwn: false }],
    [
      'selects the subprotocol berth.console.v1 if the client offers this subprotocol',
      '/api/ssh?container=a',
      'x-ticket.T, binary, berth.console.v1',
      { protocol: 'berth.console.v1', isOwn: true },
    ],
    [
      'selects the subprotocol "binary" rather than the subprotocol that contains the ticket',
      '/api/vnc?container=a',
      'clicd-vnc-ticket.T, binary',
      { kind: 'vnc', mode: 'vnc', protocol: 'binary' },
    ],
    ['ignores unknown subprotocols', '/api/ssh?container=a', 'chat', { protocol: undefined, ticket: undefined }],
    [
      'reads the size of the terminal',
      '/api/ssh?container=a&cols=100&rows=1',
      undefined,
      { size: { columns: 100, rows: 1 } },
    ],
    ['reads the request for the serial console', '/api/ssh?container=a&mode=serial', undefined, { mode: 'serial' }],
    [
      'reads the request for a program without a terminal',
      '/api/ssh?container=a&mode=run',
      'berth.console.v1',
      { mode: 'run' },
    ],
    [
      'reads the id of the console to resume and the number of bytes already received',
      '/api/ssh?container=a&resume=R-1&received=12',
      undefined,
      { resume: 'R-1', received: 12 },
    ],
  ] as [string, string, string | undefined, Partial<ConsoleOffer>][])
    it(name, () => expect(read(target, protocols)).to.deep.include(expected))

  for (const target of [
    '/api/v2/ssh?container=a',
    '/api/ssh',
    `/api/ssh?container=${'a'.repeat(129)}`,
    '/api/ssh?container=a&mode=root',
    '/api/ssh?container=a&mode=run',
    '/api/ssh?container=a&mode=vnc',
    '/api/ssh?container=a&cols=0',
    '/api/ssh?container=a&rows=1001',
    '/api/ssh?container=a&rows=1e2',
    '/api/ssh?container=a&resume=..%2F',
    '/api/ssh?container=a&received=-1',
  ])
    it(`rejects a request for ${target.slice(0, 50)}`, () => expect(read(target)).to.equal(undefined))
})
