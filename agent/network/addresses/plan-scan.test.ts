import { expect } from 'chai'
import { parseCidrOrAddress } from '../../../shared/addresses.js'
import { listAddresses, listEdges, listToProbe, planScan, type ScanFacts } from './plan-scan.js'
import { parseIpv4 } from '../subnet.js'

const facts: ScanFacts = {
  segment: { interface: 'eth0', prefixLen: 24, gateway: '198.51.100.254' },
  own: new Map([['198.51.100.1', 'eth0']]),
  configured: new Map([
    ['198.51.100.2', 'eth0'],
    ['198.51.100.5', 'eth0'],
  ]),
  pool: new Set(['198.51.100.5', '198.51.100.6', '198.51.100.7']),
  assigned: new Set(['198.51.100.5']),
  edges: new Map(listEdges(parseIpv4('198.51.100.1')!, 24)),
  isOnLink: (address) => address.startsWith('198.51.100.'),
  answers: new Map([
    ['203.0.113.9', ''],
    ['198.51.100.6', ''],
    ['198.51.100.7', '02:00:00:00:00:07'],
    ['198.51.100.8', '02:00:00:00:00:08'],
    ['198.51.100.9', ''],
  ]),
  silence: 'not checked, because verify is false',
}

describe('the scan of the host’s network segment for free addresses', () => {
  for (const [address, status, usable, reason] of [
    ['198.51.100.1', 'host', false, 'belongs to the host, on eth0'],
    ['198.51.100.254', 'gateway', false, 'gateway of the network'],
    ['198.51.100.5', 'assigned', false, 'assigned to a container'],
    ['198.51.100.6', 'pool', true, 'in the pool, free'],
    ['198.51.100.7', 'pool', false, 'in the pool, but 02:00:00:00:00:07 answers for it'],
    ['198.51.100.2', 'configured', true, 'already configured on eth0'],
    ['198.51.100.8', 'in_use', false, '02:00:00:00:00:08 answers for it'],
    ['198.51.100.9', 'available', true, 'no answer to ARP'],
    ['198.51.100.10', 'unknown', false, 'not checked, because verify is false'],
    ['203.0.113.9', 'unknown', true, 'not in a network of eth0: usable if it is routed to this host'],
    ['198.51.100.0', 'unknown', false, 'network address of 198.51.100.0/24'],
    ['198.51.100.255', 'unknown', false, 'broadcast address of 198.51.100.0/24'],
  ] as const)
    it(`gives ${address} the status "${status}" and the reason "${reason}"`, () => {
      const address4 = { address, interface: 'eth0', prefixLen: 24, gateway: '198.51.100.254' }
      expect(planScan([address], facts)).to.deep.equal([{ address: address4, status, usable, reason }])
    })

  it('probes neither the network address nor an address that the host has', () => {
    const all = listAddresses(parseCidrOrAddress('198.51.100.0/28')!, 256)
    expect(all).to.have.length(16)
    const asked = ['3', '4', '6', '7', '8', '9', '10', '11', '12', '13', '14', '15'].map((n) => `198.51.100.${n}`)
    expect(listToProbe(all, facts)).to.deep.equal(asked)
  })

  it('lists at most the given number of addresses of a network', () => {
    expect(listAddresses(parseCidrOrAddress('198.51.100.0/24')!, 3)).to.deep.equal(
      ['0', '1', '2'].map((n) => `198.51.100.${n}`),
    )
    expect(listAddresses(parseCidrOrAddress('198.51.100.7')!, 256)).to.deep.equal(['198.51.100.7'])
  })

  it('finds no network or broadcast address in a /31 or /32', () => {
    expect(listEdges(parseIpv4('198.51.100.1')!, 31)).to.deep.equal([])
    expect(listEdges(parseIpv4('198.51.100.1')!, 32)).to.deep.equal([])
    expect(listEdges(parseIpv4('198.51.100.5')!, 30).map(([address]) => address)).to.deep.equal([
      '198.51.100.4',
      '198.51.100.7',
    ])
  })
})
