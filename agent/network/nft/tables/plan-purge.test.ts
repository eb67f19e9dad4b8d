import { expect } from 'chai'
import { noChange } from './plan-change.js'
import type { ElementId } from './plan-guest.js'
import { findStaleFlows, mergeStaleFlows, type StaleFlows } from './plan-purge.js'
import { listFilters, StaleFlowQueue } from './purge.js'

describe('the purge of stale connections', () => {
  const had = new Map<ElementId, string>([
    ['ports 6 . 20001', '10.64.0.2 . 22'],
    ['ports 17 . 20001', '10.64.0.2 . 53'],
    ['host_ports6 2001:db8::ff . 6 . 20001', '2001:db8::2 . 22'],
    ['port_ranges 192.0.2.9 . 6 . 3000-3999', '10.64.0.2'],
    ['port_ranges 0.0.0.0/0 . 17 . 3000-3999', '10.64.0.2'],
    ['public_in 203.0.113.5', '10.64.0.2'],
  ])
  const none: StaleFlows = { addresses: [], publicAddresses: [], mappings: [], newDatagrams: [] }
  const find = (part: { remove?: ElementId[]; add?: [ElementId, string][] }): StaleFlows =>
    findStaleFlows({ ...noChange, ...part, add: new Map(part.add) }, (id) => had.get(id))
  const single = (protocol: 'tcp' | 'udp', hostPort: number, target = '10.64.0.2') =>
    ({ protocol, hostIp: '', hostPort, hostPortEnd: hostPort, target }) as const

  it('finds no connections if a change leaves all nft set elements the same', () => {
    expect(find({})).to.deep.equal(none)
    expect(find({ add: [...had] })).to.deep.equal(none)
  })

  it('includes all flows of an address that no longer belongs to a guest', () => {
    const remove: ElementId[] = ['guests "bt1" . 02:be:00:00:00:01 . 10.64.0.2', 'ports 6 . 20001']
    expect(find({ remove })).to.deep.equal({ ...none, addresses: ['10.64.0.2'] })
  })

  it('includes the flows of a removed IPv6 address, but not the flows of link-local addresses', () => {
    const of = (address: string): ElementId => `guests6 "bt1" . 02:be:00:00:00:01 . ${address}`
    const remove = [of('2001:db8::2'), of('::'), of('fe80::be:ff:fe00:1')]
    expect(find({ remove }).addresses).to.deep.equal(['2001:db8::2'])
  })

  it('includes the flows of a mapping whose target changed', () => {
    const found = find({ remove: ['ports 17 . 20001'], add: [['ports 17 . 20001', '10.64.0.3 . 53']] })
    expect(found.mappings).to.deep.equal([single('udp', 20001)])
    expect(found.newDatagrams).to.deep.equal([single('udp', 20001, '10.64.0.3')])
  })

  it('includes the flows of removed port ranges, and of removed mappings that had only one host address', () => {
    const range = { hostPort: 3000, hostPortEnd: 3999, target: '10.64.0.2' }
    expect(
      find({
        remove: [
          'port_ranges 192.0.2.9 . 6 . 3000-3999',
          'port_ranges 0.0.0.0/0 . 17 . 3000-3999',
          'host_ports6 2001:db8::ff . 6 . 20001',
        ],
      }).mappings,
    ).to.deep.equal([
      { ...range, protocol: 'tcp', hostIp: '192.0.2.9' },
      { ...range, protocol: 'udp', hostIp: '' },
      { ...single('tcp', 20001, '2001:db8::2'), hostIp: '2001:db8::ff' },
    ])
  })

  it('includes all flows of a public address that was added or removed', () => {
    expect(find({ remove: ['public_in 203.0.113.5'] }).publicAddresses).to.deep.equal(['203.0.113.5'])
    expect(find({ add: [['public_in 203.0.113.6', '10.64.0.2']] }).publicAddresses).to.deep.equal(['203.0.113.6'])
  })

  it('includes UDP flows that are older than the mapping of their port', () => {
    const found = find({
      add: [
        ['ports 17 . 20002', '10.64.0.3 . 53'],
        ['ports 6 . 20003', '10.64.0.3 . 22'],
      ],
    })
    expect(found).to.deep.equal({ ...none, newDatagrams: [single('udp', 20002, '10.64.0.3')] })
  })

  it('searches for the flows of a mapping only at host addresses of the same IP version as its target', () => {
    const hosts = ['192.0.2.9', '203.0.113.9', '2001:db8::ff']
    const found = find({
      add: [
        ['ports 17 . 20002', '10.64.0.3 . 53'],
        ['ports6 17 . 20002', '2001:db8::3 . 53'],
        ['host_ports 192.0.2.9 . 17 . 20003', '10.64.0.3 . 53'],
      ],
    })
    const filters = listFilters(found, hosts)
    expect(filters.map(({ address, ports }) => [address, ports?.[0]])).to.deep.equal([
      ['192.0.2.9', 20002],
      ['203.0.113.9', 20002],
      ['2001:db8::ff', 20002],
      ['192.0.2.9', 20003],
    ])
  })

  it('finds connections of a guest by its address, and connections of a mapping by address and port', () => {
    const flows = {
      addresses: ['10.64.0.2'],
      publicAddresses: ['203.0.113.5'],
      mappings: [{ ...single('tcp', 3000, '10.64.0.3'), hostPortEnd: 3999, hostIp: '192.0.2.9' }],
      newDatagrams: [],
    }
    expect(listFilters(flows, [])).to.deep.equal([
      { address: '10.64.0.2', is: 'opener' },
      { address: '10.64.0.2', is: 'answerer' },
      { address: '203.0.113.5', is: 'asked' },
      { address: '203.0.113.5', is: 'answered' },
      { address: '10.64.0.3', is: 'answerer', protocol: 'tcp', ports: [3000, 3999], asked: '192.0.2.9' },
    ])
  })

  it('covers many new UDP mappings with one request for all UDP flows to the host', () => {
    const newDatagrams = Array.from({ length: 17 }, (_, i) => single('udp', 3000 + i))
    expect(listFilters({ ...none, newDatagrams }, ['192.0.2.9'])).to.deep.equal([
      { address: '192.0.2.9', is: 'answerer', asked: '192.0.2.9', protocol: 'udp' },
    ])
  })

  describe('if a new mapping is created', () => {
    const waiting = { ...single('udp', 3000), hostPortEnd: 3999 }
    for (const [name, mapping, astray] of [
      ['if the new mapping leads to a different guest', single('udp', 3999, '10.64.0.3'), true],
      [
        'if the old mapping is at all host addresses, the new one at a single address, and their guests differ',
        { ...single('udp', 3999, '10.64.0.3'), hostIp: '192.0.2.9' },
        true,
      ],
      ['if the new mapping leads to the same guest as the old mapping', single('udp', 3000), false],
      ['if the port of the new mapping is above the ports of the connections', single('udp', 4000, '10.64.0.3'), false],
      ['if the port of the new mapping is below the ports of the connections', single('udp', 2999, '10.64.0.3'), false],
      ['if the new mapping has a different protocol', single('tcp', 3000, '10.64.0.3'), false],
      ['if the new mapping has a different address family', single('udp', 3000, '2001:db8::3'), false],
    ] as const)
      it(`${astray ? 'must end before the creation' : 'can end after the creation'} ${name}`, () => {
        const queue = new StaleFlowQueue(() => [])
        queue.add({ ...none, mappings: [waiting] })
        expect(queue.leadsAstray([mapping])).to.equal(astray)
      })

    it('does not delay the creation if the new mapping is at a different host address', () => {
      const queue = new StaleFlowQueue(() => [])
      queue.add({ ...none, mappings: [{ ...waiting, hostIp: '192.0.2.8' }] })
      expect(queue.leadsAstray([{ ...single('udp', 3000, '10.64.0.3'), hostIp: '192.0.2.9' }])).to.equal(false)
    })

    it('must end before the creation if a guest lost its address and the mapping leads to a different address', () => {
      const queue = new StaleFlowQueue(() => [])
      queue.add({ ...none, addresses: ['10.64.0.2'] })
      expect(queue.leadsAstray([single('udp', 3000)])).to.equal(false)
      expect(queue.leadsAstray([single('udp', 3000, '10.64.0.3')])).to.equal(true)
    })
  })

  it('covers a range of ports by one request, even if the range has 40,000 elements', () => {
    const ids = Array.from({ length: 40_000 }, (_, i): ElementId => `ports 17 . ${20_000 + i}`)
    const to = (address: string, first: number) =>
      new Map(ids.map((id, i): [ElementId, string] => [id, `${address} . ${first + i}`]))
    const before = to('10.64.0.2', 1000)
    const valueOf = (id: ElementId): string | undefined => before.get(id)
    const change = { ...noChange, remove: ids.toReversed(), add: to('10.64.0.3', 1001) }
    const found = findStaleFlows(change, valueOf)
    const range = { protocol: 'udp', hostIp: '', hostPort: 20_000, hostPortEnd: 59_999 } as const
    expect(found).to.deep.equal({
      ...none,
      mappings: [{ ...range, target: '10.64.0.2' }],
      newDatagrams: [{ ...range, target: '10.64.0.3' }],
    })
    expect(listFilters(found, ['192.0.2.9'])).to.have.lengthOf(2)
  })

  it('covers adjacent ports as one range, even if they come from several changes', () => {
    const [one, two] = [20001, 20002].map((port) => ({ ...none, mappings: [single('udp', port)] }))
    expect(mergeStaleFlows([one!, two!]).mappings).to.deep.equal([{ ...single('udp', 20001), hostPortEnd: 20002 }])
  })

  it('lists a connection only once even if several changes concern it', () => {
    const mapping = single('udp', 20001)
    const one = { ...none, addresses: ['10.64.0.3'], mappings: [mapping], publicAddresses: ['203.0.113.5'] }
    const two = { ...none, addresses: ['10.64.0.4', '10.64.0.3'], mappings: [{ ...mapping }] }
    expect(mergeStaleFlows([one, two])).to.deep.equal({
      ...none,
      addresses: ['10.64.0.3', '10.64.0.4'],
      publicAddresses: ['203.0.113.5'],
      mappings: [mapping],
    })
  })
})
