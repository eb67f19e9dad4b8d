import { expect } from 'chai'
import { parseDefaultInterface, parseDefaultInterface6 } from './addresses.js'

const head = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n'
const zero = '0'.repeat(32)

describe('interface of the default route', () => {
  it('IPv4: lowest metric, of routes that are up', () => {
    const text = `${head}wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth1\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0
eth2\t00000000\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
`
    expect(parseDefaultInterface(text)).to.equal('eth0')
    expect(parseDefaultInterface(head)).to.equal('')
  })

  it('IPv6: not the reject route of the loopback', () => {
    const lo = `${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo\n`
    const route = `${zero} 00 ${zero} 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0\n`
    expect(parseDefaultInterface6(lo + route)).to.equal('eth0')
    expect(parseDefaultInterface6(lo)).to.equal('')
    expect(parseDefaultInterface6('')).to.equal('')
  })
})
