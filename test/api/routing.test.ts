import { expect } from 'chai'
import { poolAddress as address, poolPrefix as prefix, RoutingClient } from '../support/routing-calls.js'
import { startTestGateway, type TestGateway } from '../support/test-gateway.js'

describe('routing over HTTP', () => {
  let gateway: TestGateway
  let routing: RoutingClient
  beforeEach(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    routing = new RoutingClient(gateway)
  })
  afterEach(() => gateway.close())

  it('shows pools as counts in text, and who has what', async () => {
    await routing.put({ items: [address(10), address(11), address(12)], ipv6_prefixes: [prefix] })
    const name = 'holder'
    const { data } = (await routing.create({ name, assign_ipv4: true, ipv4_count: 2, assign_ipv6: true }))
      .body
    const shown = await routing.get()
    const holder = { container_id: data.id as number, container_name: name }
    expect(shown).to.deep.include({
      host_id: 'host-a',
      ipv4: { used: 2, remaining: '1', total: '3' },
      ipv6: { used: 1, remaining: 'unlimited', total: 'unlimited' },
      nat4: { used: 1, remaining: '39999', total: '40000' },
      nat4_port_range: { start: 20_000, end: 59_999 },
      public_ipv4_addresses: [address(10), address(11), address(12)],
      ipv6_prefixes: [prefix],
    })
    const row = (await gateway.request('GET', `/containers/${name}`)).body.data
    const own = row.public_ipv4s as string[]
    expect(own).to.have.length(2)
    expect(shown.ipv4_assignments).to.deep.equal(
      own.map((text) => ({ ...holder, ...address(10), address: text })),
    )
    expect(shown.ipv6_assignments[0]).to.include({ ...holder, prefix_len: 64, interface: 'eth0' })
    expect(shown.nat4_mappings).to.deep.equal([
      { ...holder, status: 'creating', ip: row.ip as string, ...(row.port_mappings[0] as object) },
    ])
    expect([row.ipv6, row.ipv6_addresses]).to.deep.equal([
      shown.ipv6_assignments[0].address,
      [shown.ipv6_assignments[0].address],
    ])
  })

  it('counts the addresses of a small prefix', async () => {
    const small = { ...prefix, address: '2001:db8::2', prefix: '2001:db8::', prefix_len: 120 }
    await routing.put({ ipv6_prefixes: [small] })
    // 256 without the network's own and the host's.
    expect((await routing.get()).ipv6).to.deep.equal({ used: 0, remaining: '254', total: '254' })
  })

  it('replaces the lists sent and leaves the others', async () => {
    const first = await routing.put({ public_ipv4_addresses: [address(10)], ipv6_prefixes: [prefix] })
    expect(first.status).to.equal(200)
    expect(first.body.data).to.deep.include({
      ipv4: { used: 0, remaining: '1', total: '1' },
      public_ipv4_addresses: [address(10)],
      ipv6_prefixes: [prefix],
    })
    const second = await routing.put({ nat4_port_range: { start: 30_000, end: 39_999 } })
    expect(second.body.data).to.deep.include({
      nat4: { used: 0, remaining: '10000', total: '10000' },
      public_ipv4_addresses: [address(10)],
      ipv6_prefixes: [prefix],
    })
    const third = await routing.put({ items: [] })
    expect(third.body.data.public_ipv4_addresses).to.deep.equal([])
    expect((await routing.put([])).status).to.equal(200)
  })

  it('takes a prefix with its length behind it, and fills in what may be left out', async () => {
    const { body } = await routing.put({
      items: [{ address: '203.0.113.9' }],
      ipv6_prefixes: [{ prefix: '2001:db8::/56' }],
    })
    expect(body.data.public_ipv4_addresses).to.deep.equal([
      { address: '203.0.113.9', interface: 'eth0', prefix_len: 32, gateway: '' },
    ])
    expect(body.data.ipv6_prefixes).to.deep.equal([
      { interface: 'eth0', address: '', prefix: '2001:db8::', prefix_len: 56, gateway: '' },
    ])
  })

  it('takes a prefix in any spelling, and keeps the canonical one', async () => {
    for (const item of [
      { prefix: '2001:DB8:0:0::/64' },
      { prefix: '2001:db8::0', prefix_len: 64 },
      { prefix: '2001:db8::/64', prefix_len: 64 },
    ]) {
      const { body } = await routing.put({ ipv6_prefixes: [item] })
      expect(body.data.ipv6_prefixes[0]).to.include({ prefix: '2001:db8::', prefix_len: 64 })
    }
  })

  it('counts a port that tcp and udp share once, for all and for a key bound to containers', async () => {
    const ports = { container_port: 1, host_port: 30_000, host_port_end: 30_009 }
    const mappings = [ports, { ...ports, protocol: 'udp', host_port: 30_005, host_port_end: 30_014 }]
    const body = { name: 'shares', nat_port_mappings: mappings } // and one to SSH
    const { data } = (await routing.create(body)).body
    expect((await routing.get()).nat4).to.deep.equal({ used: 16, remaining: '39984', total: '40000' })
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [data.uuid as string] })
    const shown = (await gateway.request('GET', '/routing', { key })).body.data
    expect(shown.nat4).to.deep.equal({ used: 16, remaining: '0', total: '16' })
  })

  it('answers 409 to a range of ports that leaves out what is mapped, and keeps the old one', async () => {
    const { id } = await gateway.fleet.addGuest({ portMappings: [] })
    const map = (host_port: number, protocol = 'tcp') =>
      gateway.request('POST', `/containers/${id}/port-mappings`, {
        body: { container_port: 80, host_port, protocol },
      })
    expect((await map(30_050, 'udp')).status).to.equal(200)
    for (const [start, end] of [
      [30_051, 30_100],
      [30_000, 30_049],
    ] as const) {
      const { status, body } = await routing.put({ nat4_port_range: { start, end } })
      expect([status, body.code], `${start}`).to.deep.equal([409, 'port_conflict'])
    }
    expect((await routing.get()).nat4_port_range).to.deep.equal({ start: 20_000, end: 59_999 })
    expect((await routing.put({ nat4_port_range: { start: 30_050, end: 30_050 } })).status).to.equal(200)
    expect([(await map(30_050)).status, (await map(30_051)).body.code]).to.deep.equal([200, 'port_conflict'])
    const none = await map(0)
    expect([none.status, none.body.code]).to.deep.equal([409, 'resource_exhausted'])
  })

  it('answers 409 to a prefix that goes while a container has an address of it', async () => {
    await routing.put({ ipv6_prefixes: [prefix] })
    const { ipv6 } = (await routing.create({ name: 'six', assign_ipv6: true })).body.data as { ipv6?: string }
    expect(ipv6).to.equal(undefined)
    const own = (await gateway.request('GET', '/containers/six')).body.data.ipv6 as string
    for (const prefixes of [[], [{ prefix: '2001:db8:2::/64' }], [{ ...prefix, gateway: own }]]) {
      const { status, body } = await routing.put({ ipv6_prefixes: prefixes })
      expect([status, body.code], JSON.stringify(prefixes)).to.deep.equal([409, 'address_in_use'])
    }
    expect((await routing.put({ ipv6_prefixes: [prefix, { prefix: '2001:db8:2::/64' }] })).status).to.equal(
      200,
    )
  })

  it('has an address of the host either for mappings or for a container of its own', async () => {
    const { id } = await gateway.fleet.addGuest()
    const map = (host_ip: string) =>
      gateway.request('POST', `/containers/${id}/port-mappings`, { body: { container_port: 80, host_ip } })
    const second = '192.0.2.11'
    expect((await map(second)).status).to.equal(200)
    const pooled = await routing.put({ items: [{ address: second }] })
    expect([pooled.status, pooled.body.code]).to.deep.equal([409, 'address_in_use'])
    await gateway.request('DELETE', `/containers/${id}/port-mappings/1`)
    expect((await routing.put({ items: [{ address: second }] })).status).to.equal(200)
    const mapped = await map(second)
    expect([mapped.status, mapped.body.code]).to.deep.equal([409, 'address_in_use'])
    const asked = await gateway.request('GET', `/containers/${id}/random-port?host_ip=${second}`)
    expect([asked.status, asked.body.code]).to.deep.equal([409, 'address_in_use'])
    const foreign = await map('203.0.113.1')
    expect([foreign.status, foreign.body.details?.field]).to.deep.equal([400, 'host_ip'])
  })

  it('answers 409 when an assigned address would go', async () => {
    await routing.put({ items: [address(10), address(11)] })
    await routing.create({ name: 'keeps', public_ipv4s: ['203.0.113.11'] })
    const refused = await routing.put({ items: [address(10)] })
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'address_in_use'])
    expect((await routing.get()).public_ipv4_addresses).to.have.length(2)
  })

  it('is about the host that is named, each with its own pools', async () => {
    await routing.put({ items: [address(10)] }, '?host_id=host-b')
    expect((await routing.get()).public_ipv4_addresses).to.deep.equal([])
    expect(await routing.get('?host_id=host-b')).to.deep.include({ host_id: 'host-b' })
    expect((await routing.get('?host_id=host-b')).public_ipv4_addresses).to.have.length(1)
    for (const [method, path] of [
      ['GET', '/routing'],
      ['PUT', '/routing'],
      ['GET', '/ipv6/status'],
    ] as const) {
      const body = method === 'PUT' ? { body: {} } : {}
      const unknown = await gateway.request(method, `${path}?host_id=nowhere`, body)
      expect([unknown.status, unknown.body.details?.field]).to.deep.equal([400, 'host_id'])
      await gateway.fleet.setHostState('host-b', 'offline')
      expect((await gateway.request(method, `${path}?host_id=host-b`, body)).body.code).to.equal(
        'host_offline',
      )
      await gateway.fleet.setHostState('host-b', 'online')
    }
  })

  it('shows a key that is bound to containers what these hold, and nothing else', async () => {
    await routing.put({ items: [address(10), address(11), address(12)], ipv6_prefixes: [prefix] })
    const mine = (await routing.create({ name: 'mine', ipv4_count: 1, ipv6_count: 1 })).body.data
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [mine.uuid as string] })
    const ask = async () =>
      (await gateway.request('GET', '/routing', { key })).body.data as Record<string, object[]>
    const before = await ask()
    expect(before).to.deep.include({
      ...{ nat4: { used: 1, remaining: '0', total: '1' }, ipv4: { used: 1, remaining: '0', total: '1' } },
      ipv6: { used: 1, remaining: '0', total: '1' },
    })
    expect(before['public_ipv4_addresses']).to.have.length(1)
    for (const list of ['ipv4_assignments', 'nat4_mappings', 'ipv6_assignments'])
      expect((before[list] as { container_name: string }[]).map((one) => one.container_name)).to.deep.equal([
        'mine',
      ])
    await routing.create({ name: 'theirs', ipv4_count: 2, ipv6_count: 3, port_mapping_count: 5 })
    expect(await ask()).to.deep.equal(before)
    for (const [method, path, body] of [
      ['PUT', '/routing', { items: [] }],
      ['POST', '/routing/ipv4-scan', { cidr: '203.0.113.0/28' }],
    ] as const) {
      const refused = await gateway.request(method, path, { key, body })
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'insufficient_scope'])
    }
  })
})

/** None of them changes anything: one gateway serves all. */
describe('routing over HTTP', () => {
  let gateway: TestGateway
  let routing: RoutingClient
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    routing = new RoutingClient(gateway)
  })
  after(() => gateway.close())

  for (const [name, body, field] of [
    ['an address that is none', { items: [{ address: '203.0.113.256' }] }, 'items.0.address'],
    ['an IPv6 address', { items: [address(1), { address: '::1' }] }, 'items.1.address'],
    ['a prefix length that is none', { items: [{ ...address(1), prefix_len: 33 }] }, 'items.0.prefix_len'],
    ['a gateway that is none', { items: [{ ...address(1), gateway: 'x' }] }, 'items.0.gateway'],
    ['an interface with a blank', { items: [{ ...address(1), interface: 'a b' }] }, 'items.0.interface'],
    [
      'an interface that is too long',
      { items: [{ ...address(1), interface: 'a'.repeat(16) }] },
      'items.0.interface',
    ],
    [
      'an interface the host does not have',
      { items: [{ ...address(1), interface: 'eth9' }] },
      'items.0.interface',
    ],
    ['the loopback', { items: [{ ...address(2), interface: 'lo' }] }, 'items.0.interface'],
    ['an address twice', { items: [address(2), address(2)] }, 'items.1.address'],
    ["an item's own gateway", { items: [address(1)] }, 'items.0.address'],
    ["the host's gateway", { items: [{ address: '192.0.2.1' }] }, 'items.0.address'],
    ["the host's own address", { items: [{ address: '192.0.2.10' }] }, 'items.0.address'],
    ["an address of the containers' network", { items: [{ address: '10.64.0.9' }] }, 'items.0.address'],
    ['an address of nobody', { items: [{ address: '224.0.0.1' }] }, 'items.0.address'],
    ['a link-local prefix', { ipv6_prefixes: [{ prefix: 'fe80::/64' }] }, 'ipv6_prefixes.0.prefix'],
    ['a prefix too small', { ipv6_prefixes: [{ prefix: '2001:db8::/127' }] }, 'ipv6_prefixes.0.prefix_len'],
    [
      'prefixes that overlap',
      { ipv6_prefixes: [{ prefix: '2001:db8::/48' }, { prefix: '2001:db8:0:1::/64' }] },
      'ipv6_prefixes.1.prefix',
    ],
    [
      "a host's address of another prefix",
      { ipv6_prefixes: [{ ...prefix, address: '2001:db8:2::1' }] },
      'ipv6_prefixes.0.address',
    ],
    ['a pool that is no list', { items: {} }, 'items'],
    [
      'a prefix that is none',
      { ipv6_prefixes: [{ prefix: '2001:db8::', prefix_len: 129 }] },
      'ipv6_prefixes.0.prefix_len',
    ],
    [
      'two lengths',
      { ipv6_prefixes: [{ prefix: '2001:db8::/48', prefix_len: 64 }] },
      'ipv6_prefixes.0.prefix',
    ],
    ...['2001:db8::/64/zz', '2001:db8::/0x40', '2001:db8::/064', '2001:db8::', '2001:db8::/', '/64'].map(
      (prefix) =>
        [`the prefix ${prefix}`, { ipv6_prefixes: [{ prefix }] }, 'ipv6_prefixes.0.prefix'] as const,
    ),
    ...['2001:db8::1/64', '2001:db8::/ 64', '2001:db8::%1/64', '::ffff:10.0.0.0/104/64'].map(
      (prefix) =>
        [`the prefix ${prefix}`, { ipv6_prefixes: [{ prefix }] }, 'ipv6_prefixes.0.prefix'] as const,
    ),
    [
      'a prefix with its length thrice',
      { ipv6_prefixes: [{ prefix: '2001:db8::/64/64', prefix_len: 64 }] },
      'ipv6_prefixes.0.prefix',
    ],
    ['an IPv4 prefix', { ipv6_prefixes: [{ prefix: '10.0.0.0', prefix_len: 8 }] }, 'ipv6_prefixes.0.prefix'],
    [
      'ports that end before they begin',
      { nat4_port_range: { start: 30_009, end: 30_008 } },
      'nat4_port_range.end',
    ],
    ["the host's own ports", { nat4_port_range: { start: 1023, end: 30_008 } }, 'nat4_port_range.start'],
    ['ports that are none', { nat4_port_range: { start: 30_009, end: 65_536 } }, 'nat4_port_range.end'],
    ['half a range', { nat4_port_range: { start: 30_009 } }, 'nat4_port_range.end'],
  ] as const)
    it(`refuses ${name}`, async () => {
      const { status, body: answer } = await routing.put(body)
      expect([status, answer.details?.field]).to.deep.equal([400, field])
    })
})
