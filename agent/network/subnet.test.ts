import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import { formatIpv4, macOf, parseIpv4, parseSubnet } from './subnet.js'

describe('the subnet of guests', () => {
  it('contains first the gateway, and then addresses for guests up to the address before the broadcast address', () => {
    const { gateway, first, last, prefixLength, cidr } = parseSubnet('10.64.0.0/16')
    expect({ gateway, prefixLength, cidr }).to.deep.equal({
      gateway: '10.64.0.1',
      prefixLength: 16,
      cidr: '10.64.0.0/16',
    })
    expect([first, last].map(formatIpv4)).to.deep.equal(['10.64.0.2', '10.64.255.254'])
    expect(formatIpv4(parseSubnet('192.168.200.128/29').last)).to.equal('192.168.200.134')
  })

  for (const text of [
    '',
    '10.64.0.0',
    '10.64.0.1/16',
    '10.64.0.0/30',
    '10.0.0.0/7',
    '999.0.0.0/16',
    '10.64.0.0/16/2',
    '10.64.0.0/+16',
    '10.64.0.0/ 16',
    '010.64.0.0/16',
    'fd00::/64',
  ])
    it(`cannot be ${JSON.stringify(text)}`, () => expect(() => parseSubnet(text)).to.throw(BerthError))

  it('accepts only addresses of four decimal octets', () => {
    expect(parseIpv4('255.255.255.255')).to.equal(2 ** 32 - 1)
    for (const text of ['1.2.3', '1.2.3.4.5', '1.2.3.04', '1.2.3.-4', '1.2.3.4 ', '0x1.2.3.4', '1.2.3.256'])
      expect(parseIpv4(text), text).to.equal(undefined)
  })

  it('gives every address its own locally administered unicast MAC address', () => {
    expect(macOf('10.64.0.2')).to.equal('02:be:0a:40:00:02')
    expect(macOf('203.0.113.255')).to.equal('02:be:cb:00:71:ff')
    expect(() => macOf('x')).to.throw(BerthError)
  })
})
