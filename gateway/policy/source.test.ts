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

describe('the client’s address', () => {
  for (const [name, peer, forwarded, trusted, expected] of [
    ['is the peer’s address', '192.0.2.1', undefined, [], '192.0.2.1'],
    ['ignores headers if nobody is trusted', '192.0.2.1', '127.0.0.1', [], '192.0.2.1'],
    ['ignores headers of untrusted peers', '192.0.2.1', '127.0.0.1', ['10.0.0.0/8'], '192.0.2.1'],
    ['is the address that the proxy saw', '10.0.0.1', '198.51.100.7', ['10.0.0.0/8'], '198.51.100.7'],
    [
      'is the nearest untrusted address',
      '10.0.0.1',
      '127.0.0.1, 198.51.100.7, 10.0.0.2',
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    [
      'stops at an entry that is not an address',
      '10.0.0.1',
      '198.51.100.7, junk, 10.0.0.2',
      ['10.0.0.0/8'],
      '10.0.0.2',
    ],
    ['stops at an empty header', '10.0.0.1', '', ['10.0.0.0/8'], '10.0.0.1'],
    ['is the farthest address if all are trusted', '10.0.0.1', '10.0.0.3,10.0.0.2', ['10.0.0.0/8'], '10.0.0.3'],
    ['reads IPv4-mapped IPv6 as IPv4', '::ffff:10.0.0.1', '::FFFF:198.51.100.7', ['10.0.0.1'], '198.51.100.7'],
    ['trusts no IPv4 peer for all of IPv6', '192.0.2.1', '127.0.0.1', ['::/0'], '192.0.2.1'],
    ['trusts no IPv6 peer for all of IPv4', '::192.0.2.1', '127.0.0.1', ['0.0.0.0/0'], '::192.0.2.1'],
    ['drops a port', '10.0.0.1', '198.51.100.7:4711, 10.0.0.2:80', ['10.0.0.0/8'], '198.51.100.7'],
    ['drops brackets and port', '10.0.0.1', '[2001:db8::1]:443', ['10.0.0.0/8'], '2001:db8::1'],
    ['drops brackets', '10.0.0.1', '[2001:db8::1]', ['10.0.0.0/8'], '2001:db8::1'],
    ['keeps an IPv6 address complete', '10.0.0.1', '2001:db8::1:443', ['10.0.0.0/8'], '2001:db8::1:443'],
    ['stops at an invalid port', '10.0.0.1', '198.51.100.7:x', ['10.0.0.0/8'], '10.0.0.1'],
    ['is X-Real-IP', '10.0.0.1', { 'x-real-ip': '198.51.100.7' }, ['10.0.0.0/8'], '198.51.100.7'],
    ['is CF-Connecting-IP', '10.0.0.1', { 'cf-connecting-ip': '2001:db8::7' }, ['10.0.0.0/8'], '2001:db8::7'],
    ['is not X-Real-IP of untrusted peers', '192.0.2.1', { 'x-real-ip': '127.0.0.1' }, ['10.0.0.0/8'], '192.0.2.1'],
    [
      'is not CF-Connecting-IP of untrusted peers',
      '192.0.2.1',
      { 'cf-connecting-ip': '127.0.0.1' },
      ['10.0.0.0/8'],
      '192.0.2.1',
    ],
    [
      'prefers X-Forwarded-For',
      '10.0.0.1',
      { 'x-forwarded-for': '198.51.100.7', 'x-real-ip': '127.0.0.1', 'cf-connecting-ip': '127.0.0.1' },
      ['10.0.0.0/8'],
      '198.51.100.7',
    ],
    ['is the proxy’s address if X-Real-IP is invalid', '10.0.0.1', { 'x-real-ip': 'a, b' }, ['10.0.0.0/8'], '10.0.0.1'],
    ['drops a zone', 'fe80::1%eth0', undefined, [], 'fe80::1'],
  ] as [string, string, ForwardedHeaders, string[], string][])
    it(name, () => expect(addressOf(peer, forwarded, trusted)).to.equal(expected))

  it('is always an address, and never one invented by an untrusted hop', () => {
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

describe('the TLS state of a request', () => {
  const proxies = new AddressSet(['10.0.0.0/8'])
  for (const [name, peer, encrypted, proto, expected] of [
    ['at the gateway', '192.0.2.1', true, undefined, true],
    ['not at the gateway', '192.0.2.1', false, undefined, false],
    ['not at the gateway, despite the header', '192.0.2.1', false, 'https', false],
    ['at the gateway, despite the header', '192.0.2.1', true, 'http', true],
    ['at a proxy', '10.0.0.1', false, 'https', true],
    ['at a proxy, mapped', '::ffff:10.0.0.1', false, 'HTTPS', true],
    ['not at the proxy', '10.0.0.1', false, 'http', false],
    ['only behind the proxy', '10.0.0.1', true, 'http', false],
    ['only at some proxies', '10.0.0.1', false, 'https, http', false],
    ['at all proxies', '10.0.0.1', false, 'https, https', true],
    ['a proxy that sends no header', '10.0.0.1', true, undefined, true],
  ] as [string, string, boolean, string | undefined, boolean][])
    it(name, () => {
      const headers = proto === undefined ? {} : { 'x-forwarded-proto': proto }
      expect(isSecure({ peer, headers, encrypted }, proxies)).to.equal(expected)
    })
})
