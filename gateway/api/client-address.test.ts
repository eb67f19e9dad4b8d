import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { expect } from 'chai'
import fc from 'fast-check'
import { createClientAddressReader } from './client-address.js'

function addressOf(peer: string, forwarded: string | undefined, trusted: string[]): string {
  const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
  const request = { socket: { remoteAddress: peer }, headers } as unknown as IncomingMessage
  return createClientAddressReader(trusted)(request)
}

describe('the client’s address', () => {
  for (const [name, peer, forwarded, trusted, expected] of [
    ['is the peer’s', '192.0.2.1', undefined, [], '192.0.2.1'],
    ['ignores headers where nobody is trusted', '192.0.2.1', '127.0.0.1', [], '192.0.2.1'],
    ['ignores headers of those not trusted', '192.0.2.1', '127.0.0.1', ['10.0.0.0/8'], '192.0.2.1'],
    ['is what the proxy saw', '10.0.0.1', '198.51.100.7', ['10.0.0.0/8'], '198.51.100.7'],
    [
      'is the nearest untrusted one',
      '10.0.0.1',
      '127.0.0.1, 198.51.100.7, 10.0.0.2',
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    ['stops at what is no address', '10.0.0.1', '198.51.100.7, junk, 10.0.0.2', ['10.0.0.0/8'], '10.0.0.2'],
    ['stops at an empty header', '10.0.0.1', '', ['10.0.0.0/8'], '10.0.0.1'],
    ['is the farthest where all are trusted', '10.0.0.1', '10.0.0.3,10.0.0.2', ['10.0.0.0/8'], '10.0.0.3'],
    [
      'reads IPv4-mapped IPv6 as IPv4',
      '::ffff:10.0.0.1',
      '::FFFF:198.51.100.7',
      ['10.0.0.1'],
      '198.51.100.7',
    ],
    ['drops a zone', 'fe80::1%eth0', undefined, [], 'fe80::1'],
  ] as [string, string, string | undefined, string[], string][])
    it(name, () => expect(addressOf(peer, forwarded, trusted)).to.equal(expected))

  it('is always an address, and never one that an untrusted hop made up', () => {
    const hop = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constant('10.1.2.3'))
    fc.assert(
      fc.property(fc.array(hop, { maxLength: 6 }), (hops) => {
        // 203.0.113.9 connects to our proxy 10.0.0.1, which appends what it saw.
        const forwarded = [...hops, '203.0.113.9'].join(', ')
        const address = addressOf('10.0.0.1', forwarded, ['10.0.0.0/8'])
        expect(isIP(address)).to.be.greaterThan(0)
        expect(address).to.equal('203.0.113.9')
      }),
    )
  })

  it('does not start with a trusted proxy that is no address', () =>
    expect(() => createClientAddressReader(['proxy.example'])).to.throw(TypeError))
})
