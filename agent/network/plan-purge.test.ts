import { expect } from 'chai'
import { findStaleFlows, mergeStaleFlows } from './plan-purge.js'

describe('stale flows', () => {
  const change = { removeGuests: [], removePorts: [], addGuests: [], addPorts: new Map<string, string>() }
  const had = new Map([
    ['6 . 20001', '10.64.0.2 . 22'],
    ['17 . 20001', '10.64.0.2 . 53'],
  ])
  const find = (part: Partial<typeof change> | Record<string, unknown>): ReturnType<typeof findStaleFlows> =>
    findStaleFlows({ ...change, ...part }, (port) => had.get(port))

  it('are none where nothing changes', () => {
    const none = { addresses: [], mappings: [], newDatagramPorts: [] }
    expect(find({})).to.deep.equal(none)
    expect(find({ addPorts: had })).to.deep.equal(none)
  })

  it('are those of an address that lost its owner, its mappings among them', () => {
    const found = find({
      removeGuests: ['"bt1" . 02:be:00:00:00:01 . 10.64.0.2'],
      removePorts: ['6 . 20001'],
    })
    expect(found).to.deep.equal({ addresses: ['10.64.0.2'], mappings: [], newDatagramPorts: [] })
  })

  it('are those of a mapping that led elsewhere', () => {
    const found = find({ removePorts: ['17 . 20001'], addPorts: new Map([['17 . 20001', '10.64.0.3 . 53']]) })
    expect(found.mappings).to.deep.equal([{ protocol: 'udp', hostPort: 20001, ipv4: '10.64.0.2' }])
    expect(found.newDatagramPorts).to.deep.equal([20001])
  })

  it('are those that datagrams made before there was a mapping', () => {
    const found = find({
      addPorts: new Map([
        ['17 . 20002', '10.64.0.3 . 53'],
        ['6 . 20003', '10.64.0.3 . 22'],
      ]),
    })
    expect(found).to.deep.equal({ addresses: [], mappings: [], newDatagramPorts: [20002] })
  })

  it('of several changes come together, each once', () => {
    const mapping = { protocol: 'udp', hostPort: 20001, ipv4: '10.64.0.2' } as const
    const one = { addresses: ['10.64.0.3'], mappings: [mapping], newDatagramPorts: [20001] }
    const two = { addresses: ['10.64.0.4'], mappings: [{ ...mapping }], newDatagramPorts: [20001, 20002] }
    expect(mergeStaleFlows([one, two])).to.deep.equal({
      addresses: ['10.64.0.3', '10.64.0.4'],
      mappings: [mapping],
      newDatagramPorts: [20001, 20002],
    })
  })
})
