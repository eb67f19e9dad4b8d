import { expect } from 'chai'
import type { ScannedAddress } from '../../agent/network/addresses/plan-scan.js'
import { AddressedPair, failure, poolItem } from '../support/network/addressed-pair.js'
import { clientAddress, hostAddress } from '../support/network/network-lab.js'

/* Scans the addresses of the host's segment with real ARP. A namespace stands for another machine on the segment. */

/** Addresses of the pool: the first one is assigned to a guest, the second one is not. */
const [assigned, free] = ['198.51.100.10', '198.51.100.12']

describe('Berth’s scan of the host’s network segment', function () {
  const pair = new AddressedPair('btestseg')
  const { lab } = pair

  const found = async (request: object): Promise<Map<string, ScannedAddress>> => {
    const all = { interface: '', gateway: '', verify: true, limit: 0, ...request }
    const items = (await pair.book.call('scan', all)) as ScannedAddress[]
    return new Map(items.map((item) => [item.address.address, item]))
  }

  before(async () => {
    await pair.open()
    await pair.routing({ ipv4Pool: [assigned, free].map(poolItem) })
    await pair.attach({ ...pair.a, publicIpv4s: [assigned] })
    lab.in(lab.client, 'ip', 'address', 'add', '198.51.100.20/24', 'dev', 'eth0')
    pair.show('address', 'add', '198.51.100.5/24', 'dev', 'up0')
  })

  after(() => lab.remove())

  it('reports for each address whether it is in use, and for what', async () => {
    const items = await found({ cidr: '198.51.100.0/27' })
    const of = (address: string) => [items.get(address)?.status, items.get(address)?.usable]
    expect(items.size).to.equal(32)
    expect(of(hostAddress)).to.deep.equal(['host', false])
    expect(of(clientAddress)).to.deep.equal(['gateway', false])
    expect(of(assigned)).to.deep.equal(['assigned', false])
    expect(of(free)).to.deep.equal(['pool', true])
    expect(of('198.51.100.5')).to.deep.equal(['configured', true])
    expect(of('198.51.100.20')).to.deep.equal(['in_use', false])
    expect(of('198.51.100.21')).to.deep.equal(['available', true])
    expect(of('198.51.100.0')).to.deep.equal(['unknown', false])
    expect(items.get('198.51.100.21')?.address).to.deep.equal({
      address: '198.51.100.21',
      interface: 'up0',
      prefixLen: 24,
      gateway: clientAddress,
    })
  })

  it('also finds addresses in use that are not part of a network of the host', async () => {
    lab.in(lab.client, 'ip', 'address', 'add', '203.0.113.50/32', 'dev', 'eth0')
    const items = await found({ cidr: '203.0.113.48/30', interface: 'up0' })
    expect([...items.values()].map(({ status, usable }) => [status, usable])).to.deep.equal([
      ['unknown', true],
      ['unknown', true],
      ['in_use', false],
      ['unknown', true],
    ])
  })

  it('reports if another machine uses an address of the pool', async () => {
    lab.in(lab.client, 'ip', 'address', 'add', `${free}/32`, 'dev', 'eth0')
    const item = (await found({ cidr: free })).get(free)!
    expect([item.status, item.usable]).to.deep.equal(['pool', false])
    expect(item.reason).to.contain('answers for it')
    lab.in(lab.client, 'ip', 'address', 'delete', `${free}/32`, 'dev', 'eth0')
  })

  it('sends no ARP requests, and leaves no neighbour entries, if the request contains verify=false', async () => {
    const items = await found({ cidr: '198.51.100.20/30', verify: false, limit: 2 })
    expect([...items.values()].map(({ status }) => status)).to.deep.equal(['unknown', 'unknown'])
    expect(pair.show('neigh', 'show', 'dev', 'up0')).to.not.match(/FAILED|INCOMPLETE/)
  })

  for (const [name, request] of [
    ['a network larger than /24', { cidr: '198.51.100.0/23' }],
    ['an IPv6 network', { cidr: '2001:db8::/120' }],
    ['the network 0.0.0.0', { cidr: '0.0.0.0/30' }],
    ['multicast addresses', { cidr: '224.0.0.0/30' }],
    ['the bridge of the guests as the interface', { cidr: '198.51.100.0/28', interface: 'berth0' }],
    ['an invalid interface name', { cidr: '198.51.100.0/28', interface: 'up0 up' }],
  ] as const)
    it(`rejects ${name}`, async () => expect(await failure(found(request))).to.match(/must|does not exist/))
})
