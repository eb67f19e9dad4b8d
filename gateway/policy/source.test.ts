import { isIP } from 'node:net'
import { expect } from 'chai'
import fc from 'fast-check'
import { AddressSet } from '../access/addresses.js'
import { isSecure, readSource } from './source.js'

/** Value of X-Forwarded-For, or values of several headers by name. */
type ForwardedHeaders = string | Record<string, string> | undefined

function addressOf(peer: string, forwarded: ForwardedHeaders, trusted: string[]): string {
  const headers = typeof forwarded === 'string' ? { 'x-forwarded-for': forwarded } : (forwarded ?? {})
  return readSource({ peer, headers }, new AddressSet(trusted)).address
}

describe('the determination of a client’s address', () => {
  for (const [name, peer, forwarded, trusted, expected] of [
    ['returns the address of the peer if there is no header', '192.0.2.1', undefined, [], '192.0.2.1'],
    ['ignores headers if no proxy is trusted', '192.0.2.1', '127.0.0.1', [], '192.0.2.1'],
    ['ignores headers of untrusted peers', '192.0.2.1', '127.0.0.1', ['10.0.0.0/8'], '192.0.2.1'],
    ['returns the address that a trusted proxy reports', '10.0.0.1', '198.51.100.7', ['10.0.0.0/8'], '198.51.100.7'],
    [
      'returns the last address that is not a trusted proxy',
      '10.0.0.1',
      '127.0.0.1, 198.51.100.7, 10.0.0.2',
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    [
      'ignores all addresses before an invalid entry of X-Forwarded-For',
      '10.0.0.1',
      '198.51.100.7, junk, 10.0.0.2',
      ['10.0.0.0/8'],
      '10.0.0.2',
    ],
    ['returns the address of the proxy if the header is empty', '10.0.0.1', '', ['10.0.0.0/8'], '10.0.0.1'],
    [
      'returns the first address if all addresses are trusted',
      '10.0.0.1',
      '10.0.0.3,10.0.0.2',
      ['10.0.0.0/8'],
      '10.0.0.3',
    ],
    [
      'converts an IPv4-mapped IPv6 address to IPv4',
      '::ffff:10.0.0.1',
      '::FFFF:198.51.100.7',
      ['10.0.0.1'],
      '198.51.100.7',
    ],
    ['does not trust IPv4 peers if all of IPv6 is trusted', '192.0.2.1', '127.0.0.1', ['::/0'], '192.0.2.1'],
    ['does not trust IPv6 peers if all of IPv4 is trusted', '::192.0.2.1', '127.0.0.1', ['0.0.0.0/0'], '::192.0.2.1'],
    [
      'removes a port from IPv4 addresses',
      '10.0.0.1',
      '198.51.100.7:4711, 10.0.0.2:80',
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    ['removes brackets and port from an IPv6 address', '10.0.0.1', '[2001:db8::1]:443', ['10.0.0.0/8'], '2001:db8::1'],
    ['removes brackets from an IPv6 address', '10.0.0.1', '[2001:db8::1]', ['10.0.0.0/8'], '2001:db8::1'],
    [
      'does not mistake the end of an IPv6 address for a port',
      '10.0.0.1',
      '2001:db8::1:443',
      ['10.0.0.0/8'],
      '2001:db8::1:443',
    ],
    ['ignores an address with an invalid port', '10.0.0.1', '198.51.100.7:x', ['10.0.0.0/8'], '10.0.0.1'],
    [
      'uses the header X-Real-IP of a trusted proxy',
      '10.0.0.1',
      { 'x-real-ip': '198.51.100.7' },
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    [
      'uses the header CF-Connecting-IP of a trusted proxy',
      '10.0.0.1',
      { 'cf-connecting-ip': '2001:db8::7' },
      ['10.0.0.0/8'],
      '2001:db8::7',
    ],
    ['ignores X-Real-IP of untrusted peers', '192.0.2.1', { 'x-real-ip': '127.0.0.1' }, ['10.0.0.0/8'], '192.0.2.1'],
    [
      'ignores CF-Connecting-IP of untrusted peers',
      '192.0.2.1',
      { 'cf-connecting-ip': '127.0.0.1' },
      ['10.0.0.0/8'],
      '192.0.2.1',
    ],
    [
      'prefers X-Forwarded-For to the other headers',
      '10.0.0.1',
      { 'x-forwarded-for': '198.51.100.7', 'x-real-ip': '127.0.0.1', 'cf-connecting-ip': '127.0.0.1' },
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    ['ignores an invalid X-Real-IP', '10.0.0.1', { 'x-real-ip': 'a, b' }, ['10.0.0.0/8'], '10.0.0.1'],
    ['removes a zone index', 'fe80::1%eth0', undefined, [], 'fe80::1'],
  ] as [string, string, ForwardedHeaders, string[], string][])
    it(name, () => expect(addressOf(peer, forwarded, trusted)).to.equal(expected))

  it('always returns a valid address, and never an address that the client has invented', () => {
    const hop = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constant('10.1.2.3'))
    fc.assert(
      fc.property(fc.array(hop, { maxLength: 6 }), (hops) => {
        // The client 203.0.113.9 connects to the trusted proxy 10.0.0.1, which appends the client's address.
        const forwarded = [...hops, '203.0.113.9'].join(', ')
        const address = addressOf('10.0.0.1', forwarded, ['10.0.0.0/8'])
        expect(isIP(address)).to.be.greaterThan(0)
        expect(address).to.equal('203.0.113.9')
      }),
    )
  })
})

describe('a request through proxies', () => {
  const proxies = new AddressSet(['10.0.0.0/8'])
  for (const [name, peer, encrypted, proto, expected] of [
    ['counts as encrypted if its connection to the gateway is encrypted', '192.0.2.1', true, undefined, true],
    [
      'does not count as encrypted if its connection to the gateway is not encrypted',
      '192.0.2.1',
      false,
      undefined,
      false,
    ],
    [
      'does not count as encrypted if only a header of an untrusted peer reports encryption',
      '192.0.2.1',
      false,
      'https',
      false,
    ],
    [
      'counts as encrypted if its connection is encrypted, even if a header of an untrusted peer denies this',
      '192.0.2.1',
      true,
      'http',
      true,
    ],
    ['counts as encrypted if a trusted proxy reports encryption', '10.0.0.1', false, 'https', true],
    [
      'counts as encrypted if a trusted proxy with an IPv4-mapped address reports encryption',
      '::ffff:10.0.0.1',
      false,
      'HTTPS',
      true,
    ],
    ['does not count as encrypted if a trusted proxy reports no encryption', '10.0.0.1', false, 'http', false],
    [
      'does not count as encrypted if only the connection from the trusted proxy to the gateway is encrypted',
      '10.0.0.1',
      true,
      'http',
      false,
    ],
    [
      'does not count as encrypted if only some of the reported connections are encrypted',
      '10.0.0.1',
      false,
      'https, http',
      false,
    ],
    ['counts as encrypted if all reported connections are encrypted', '10.0.0.1', false, 'https, https', true],
    [
      'counts as encrypted if a trusted proxy connects to the gateway with TLS and sends no header',
      '10.0.0.1',
      true,
      undefined,
      true,
    ],
  ] as [string, string, boolean, string | undefined, boolean][])
    it(name, () => {
      const headers = proto === undefined ? {} : { 'x-forwarded-proto': proto }
      expect(isSecure({ peer, headers, encrypted }, proxies)).to.equal(expected)
    })
})
