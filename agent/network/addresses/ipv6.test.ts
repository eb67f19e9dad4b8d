import { expect } from 'chai'
import { formatIpv6, holds, overlaps, parseIpv6, parseIpv6Network } from './ipv6.js'

describe('the functions for IPv6 networks', () => {
  for (const [text, prefix, prefixLength, last] of [
    ['2001:db8::/64', '2001:db8::', 64, '2001:db8::ffff:ffff:ffff:ffff'],
    ['2001:DB8:0:0:8000::/65', '2001:db8:0:0:8000::', 65, '2001:db8::ffff:ffff:ffff:ffff'],
    ['2001:db8::10/124', '2001:db8::10', 124, '2001:db8::1f'],
    ['fd00::/8', 'fd00::', 8, 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ] as const)
    it(`parse the network ${text}, and return its first and last address`, () => {
      const network = parseIpv6Network(text)!
      expect(network).to.include({ prefix, prefixLength, last: parseIpv6(last) })
      expect(formatIpv6(network.last)).to.equal(last)
    })

  for (const text of ['2001:db8::1/64', '2001:db8::', '10.0.0.0/8', '2001:db8::/129', 'fe80::%eth0/64', '', '/64'])
    it(`reject the network ${JSON.stringify(text)}`, () => expect(parseIpv6Network(text)).to.equal(undefined))

  it('find out whether a network contains an address or overlaps another network', () => {
    const [a, b, c] = ['2001:db8::/64', '2001:db8::ff00/120', '2001:db8:0:1::/64'].map((text) =>
      parseIpv6Network(text)!,
    )
    expect(holds(a!, parseIpv6('2001:db8::1')!)).to.equal(true)
    expect(holds(a!, parseIpv6('2001:db8:0:1::')!)).to.equal(false)
    expect(overlaps(a!, b!)).to.equal(true)
    expect(overlaps(c!, b!)).to.equal(false)
  })
})
