import { expect } from 'chai'
import { parseDefaultRoutes, parseDefaultRoutes6 } from './addresses.js'

const head = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n'
const zero = '0'.repeat(32)

describe('default routes', () => {
  it('of IPv4 include only active routes, with the lowest metric first', () => {
    const text = `${head}wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0
eth2\t00000000\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
`
    expect(parseDefaultRoutes(text)).to.deep.equal([
      { interface: 'eth0', gateway: '192.0.2.1' },
      { interface: 'wlan0', gateway: '192.0.2.1' },
    ])
    expect(parseDefaultRoutes(head)).to.deep.equal([])
  })

  it('for IPv6 do not include the reject route of the loopback interface', () => {
    const lo = `${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo\n`
    const route = `${zero} 00 ${zero} 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0\n`
    expect(parseDefaultRoutes6(lo + route)).to.deep.equal([
      { interface: 'eth0', gateway: 'fd00:0000:0000:0000:0000:0000:0000:0001' },
    ])
    expect(parseDefaultRoutes6(lo)).to.deep.equal([])
    expect(parseDefaultRoutes6('')).to.deep.equal([])
  })
})
