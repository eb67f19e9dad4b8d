import { expect } from 'chai'
import { AgentConfigSchema } from '../../config.js'
import { validateConfig } from '../../../shared/config.js'
import { BerthError } from '../../../shared/errors.js'
import { checkPortMapping, type WantedMapping } from '../../../shared/port-mapping-rules.js'
import { listHostAddresses } from '../../host/net/addresses.js'
import { Changes } from '../../state/changes.js'
import { openDatabase } from '../../state/database.js'
import { kernelFacts } from '../../network/addresses/host-facts.js'
import { HostPorts } from './host-ports.js'
import type { PortMapping } from '../record/record.js'
import { GuestStore } from '../record/guest-store.js'

const config = validateConfig(AgentConfigSchema, { network: { nat_ports: { start: 30000, end: 30099 } } }, 'test')

describe('reserved port mappings', () => {
  let store: GuestStore
  beforeEach(() => {
    store = new GuestStore(new Changes(openDatabase(':memory:')))
  })
  afterEach(() => store.changes.db.close())

  const want = (fields: Partial<WantedMapping>): WantedMapping => ({
    protocol: 'tcp',
    hostIp: '',
    hostPort: 0,
    hostPortEnd: 0,
    containerPort: 0,
    containerPortEnd: 0,
    description: '',
    ...fields,
  })
  const reserve = (wanted: Partial<WantedMapping>[], listening: string[] = []): PortMapping[] =>
    new HostPorts({ store, config: config.network, facts: kernelFacts }).reserve({
      wanted: wanted.map((fields) => checkPortMapping(want(fields))),
      listening: new Set(listening),
      hasIpv6: false,
    })
  const codeOf = (wanted: Partial<WantedMapping>[]): string => codeOfCall(() => reserve(wanted))
  const codeOfCall = (call: () => unknown): string => {
    try {
      call()
    } catch (error) {
      return error instanceof BerthError ? `${error.code} ${error.field ?? ''}`.trim() : String(error)
    }
    return 'no error'
  }
  const ports = (mapping: PortMapping | undefined): number[] => [
    mapping!.hostPort,
    mapping!.hostPortEnd,
    mapping!.containerPort,
    mapping!.containerPortEnd,
  ]

  it('get the requested host ports, and no other mapping gets these ports', () => {
    const wanted = Array.from({ length: 99 }, (_, n) => ({ containerPort: n + 1 }))
    const mappings = reserve([...wanted, { containerPort: 500, hostPort: 30050 }])
    expect(mappings.map(({ containerPort }) => containerPort)).to.deep.equal([
      ...wanted.map(({ containerPort }) => containerPort),
      500,
    ])
    expect(mappings.at(-1)!.hostPort).to.equal(30050)
    expect(new Set(mappings.map(({ hostPort }) => hostPort)).size).to.equal(100)
    expect(codeOf([...wanted, {}, {}])).to.equal('resource_exhausted')
  })

  it('use the number of the host port also in the guest if the request contains only the host port', () => {
    const [mapping] = reserve([{ hostPort: 30007 }])
    expect(ports(mapping)).to.deep.equal([30007, 30007, 30007, 30007])
  })

  it('use the guest’s port numbers as host ports if these are free and the request contains no host ports', () => {
    const range = { containerPort: 30010, containerPortEnd: 30019 }
    expect(ports(reserve([range])[0])).to.deep.equal([30010, 30019, 30010, 30019])
    const [first, ...rest] = ports(reserve([range], ['tcp:30015'])[0])
    expect(first).not.to.equal(30010)
    expect(rest).to.deep.equal([first! + 9, 30010, 30019])
    const [, shifted] = reserve([range, range])
    expect(ports(shifted).slice(2)).to.deep.equal([30010, 30019])
  })

  it('can share a host port only with a mapping of another protocol', () => {
    const both = [{ hostPort: 30001 }, { hostPort: 30001, protocol: 'udp' }]
    expect(reserve(both)).to.have.lengthOf(2)
    expect(codeOf([...both, { hostPort: 30001 }])).to.equal('port_conflict host_port')
  })

  describe('with a limit of host ports per guest', () => {
    const limit = 20
    const limited = structuredClone(config)
    limited.network.nat_ports.per_guest = limit
    const range = (count: number, first = 30050): Partial<WantedMapping> => ({
      hostPort: first,
      hostPortEnd: first + count - 1,
      containerPort: 1,
      containerPortEnd: count,
    })
    const held = (count: number): PortMapping => {
      const hostPortEnd = 30000 + count - 1
      const ports = { hostPort: 30000, hostPortEnd, containerPort: 30000, containerPortEnd: hostPortEnd }
      return { protocol: 'tcp', hostIp: '', description: '', ...ports }
    }
    const singles = Array.from({ length: limit }, () => ({ containerPort: 22 }))
    for (const [name, wanted, others, replaced, code] of [
      ['as many ports as the limit permits', [range(limit)], [], undefined, 'no error'],
      ['one port more than the limit permits', [range(limit + 1)], [], undefined, 'resource_exhausted'],
      ['several mappings that together have as many ports as the limit permits', singles, [], undefined, 'no error'],
      [
        'one mapping of a single port more than the limit permits',
        [...singles, {}],
        [],
        undefined,
        'resource_exhausted',
      ],
      [
        'mappings whose tcp and udp ports together exceed the limit',
        [range(11), { ...range(10), protocol: 'udp' }],
        [],
        undefined,
        'resource_exhausted',
      ],
      [
        'new ports that together with existing ports reach the limit',
        [range(5)],
        [held(10), held(5)],
        undefined,
        'no error',
      ],
      [
        'new ports that together with existing ports exceed the limit',
        [range(6)],
        [held(10), held(5)],
        undefined,
        'resource_exhausted',
      ],
      [
        'a range that replaces a shorter range and brings the guest exactly to the limit',
        [range(10)],
        [held(10)],
        held(3),
        'no error',
      ],
      [
        'a range that replaces a shorter range and brings the guest above the limit',
        [range(11)],
        [held(10)],
        held(3),
        'resource_exhausted',
      ],
      ['a new port if the guest already exceeds the limit', [range(1)], [held(30)], undefined, 'resource_exhausted'],
      [
        'a range that replaces a shorter range if the guest already exceeds the limit',
        [range(31)],
        [],
        held(30),
        'resource_exhausted',
      ],
      [
        'a range of the same length as the replaced range, even if the guest already exceeds the limit',
        [range(30)],
        [held(30)],
        held(30),
        'no error',
      ],
      [
        'a range shorter than the replaced range, even if the guest already exceeds the limit',
        [range(29)],
        [held(30)],
        held(30),
        'no error',
      ],
    ] as [string, Partial<WantedMapping>[], PortMapping[], PortMapping | undefined, string][])
      it(`cause ${code} for ${name}`, () => {
        const order = {
          wanted: wanted.map((fields) => checkPortMapping(want(fields))),
          others,
          listening: new Set<string>(),
          hasIpv6: false,
          ...(replaced && { replaced }),
        }
        const reserved = codeOfCall(() =>
          new HostPorts({ store, config: limited.network, facts: kernelFacts }).reserve(order),
        )
        expect(reserved).to.equal(code)
      })
  })

  it('can use only addresses of the host that are not in the address pool for guests', () => {
    const [own = ''] = listHostAddresses('ipv4')
    expect(reserve([{ hostIp: own, hostPort: 30001 }])[0]).to.include({ hostIp: own })
    expect(codeOf([{ hostIp: '203.0.113.77' }])).to.equal('invalid_field host_ip')
    expect(codeOf([{ hostIp: '127.0.0.1' }])).to.equal('invalid_field host_ip')
    expect(codeOf([{ hostIp: '2001:db8::1' }])).to.equal('invalid_field host_ip')
    store.changes.db.prepare("INSERT INTO ipv4_pool (address, interface, prefix_len) VALUES (?, 'eth0', 24)").run(own)
    expect(codeOf([{ hostIp: own }])).to.equal('address_in_use')
  })
})
