import { expect } from 'chai'
import { parseIfInet6 } from './ipv6-addresses.js'

describe('the parser of /proc/net/if_inet6', () => {
  const text = `fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000002 04 40 00 82     eth0
20010db800000000aaaa00000000000f 04 40 00 61 enp1s0.100
`
  const plain = { temporary: false, deprecated: false, tentative: false }

  it('returns addresses with their scope and flags', () => {
    expect(parseIfInet6(text)).to.deep.equal([
      {
        interface: 'eth0',
        address: 'fe80:0000:0000:0000:00fc:00ff:fe00:0001',
        prefixLength: 64,
        scope: 'link',
        ...plain,
      },
      {
        interface: 'lo',
        address: '0000:0000:0000:0000:0000:0000:0000:0001',
        prefixLength: 128,
        scope: 'host',
        ...plain,
      },
      {
        interface: 'eth0',
        address: '2001:0db8:0000:0000:0000:0000:0000:0002',
        prefixLength: 64,
        scope: 'global',
        ...plain,
      },
      {
        interface: 'enp1s0.100',
        address: '2001:0db8:0000:0000:aaaa:0000:0000:000f',
        prefixLength: 64,
        scope: 'global',
        temporary: true,
        deprecated: true,
        tentative: true,
      },
    ])
  })

  it('returns an empty list for an empty file', () => expect(parseIfInet6('')).to.deep.equal([]))
})
