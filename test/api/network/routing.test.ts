import { expect } from 'chai'
import { poolAddress as address, poolPrefix as prefix, RoutingClient } from '../../support/network/routing-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the address and port pools of a host', () => {
  let gateway: TestGateway
  let routing: RoutingClient
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    routing = new RoutingClient(gateway)
  })
  after(() => gateway.close())
  afterEach(() => routing.clear())

  it('show their sizes as text, and the container of each address', async () => {
    await routing.put({ items: [address(10), address(11), address(12)], ipv6_prefixes: [prefix] })
    const name = 'holder'
    const { data } = (await routing.create({ name, assign_ipv4: true, ipv4_count: 2, assign_ipv6: true })).body
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
    expect(shown.ipv4_assignments).to.deep.equal(own.map((text) => ({ ...holder, ...address(10), address: text })))
    expect(shown.ipv6_assignments[0]).to.include({ ...holder, prefix_len: 64, interface: 'eth0' })
    expect(shown.nat4_mappings).to.deep.equal([
      { ...holder, status: 'creating', ip: row.ip as string, ...(row.port_mappings[0] as object) },
    ])
    expect([row.ipv6, row.ipv6_addresses]).to.deep.equal([
      shown.ipv6_assignments[0].address,
      [shown.ipv6_assignments[0].address],
    ])
  })

  it('contain all usable addresses of a small IPv6 prefix', async () => {
    const small = { ...prefix, address: '2001:db8::2', prefix: '2001:db8::', prefix_len: 120 }
    await routing.put({ ipv6_prefixes: [small] })
    // A /120 has 256 addresses. Two are not for guests: those of the network and of the host.
    expect((await routing.get()).ipv6).to.deep.equal({ used: 0, remaining: '254', total: '254' })
  })

  it('are replaced by the lists in the request, except lists that the request omits', async () => {
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

  it('show a prefix in canonical form, and defaults for omitted fields', async () => {
    const { body } = await routing.put({
      items: [{ address: '203.0.113.9' }],
      ipv6_prefixes: [{ prefix: '2001:DB8:0:0::/56' }],
    })
    expect(body.data.public_ipv4_addresses).to.deep.equal([
      { address: '203.0.113.9', interface: 'eth0', prefix_len: 32, gateway: '' },
    ])
    expect(body.data.ipv6_prefixes).to.deep.equal([
      { interface: 'eth0', address: '', prefix: '2001:db8::', prefix_len: 56, gateway: '' },
    ])
  })

  it('count a host port only once if it is mapped for TCP and UDP, even for a key bound to containers', async () => {
    const ports = { container_port: 1, host_port: 30_000, host_port_end: 30_009 }
    const mappings = [ports, { ...ports, protocol: 'udp', host_port: 30_005, host_port_end: 30_014 }]
    const body = { name: 'shares', nat_port_mappings: mappings } // each container also has a mapping to SSH
    const { data } = (await routing.create(body)).body
    expect((await routing.get()).nat4).to.deep.equal({ used: 16, remaining: '39984', total: '40000' })
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [data.uuid as string] })
    const shown = (await gateway.request('GET', '/routing', { key })).body.data
    expect(shown.nat4).to.deep.equal({ used: 16, remaining: '0', total: '16' })
  })

  it('refuse a port range that does not contain all mapped ports', async () => {
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

  it('cannot lose a prefix from which a container has an address', async () => {
    await routing.put({ ipv6_prefixes: [prefix] })
    const { ipv6 } = (await routing.create({ name: 'six', assign_ipv6: true })).body.data as { ipv6?: string }
    expect(ipv6).to.equal(undefined)
    const own = (await gateway.request('GET', '/containers/six')).body.data.ipv6 as string
    for (const prefixes of [[], [{ prefix: '2001:db8:2::/64' }], [{ ...prefix, gateway: own }]]) {
      const { status, body } = await routing.put({ ipv6_prefixes: prefixes })
      expect([status, body.code], JSON.stringify(prefixes)).to.deep.equal([409, 'address_in_use'])
    }
    expect((await routing.put({ ipv6_prefixes: [prefix, { prefix: '2001:db8:2::/64' }] })).status).to.equal(200)
  })

  it('cannot contain the address of a port mapping, and a mapping cannot use an address of a pool', async () => {
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

  it('cannot lose an address that a container has', async () => {
    await routing.put({ items: [address(10), address(11)] })
    await routing.create({ name: 'keeps', public_ipv4s: ['203.0.113.11'] })
    const refused = await routing.put({ items: [address(10)] })
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'address_in_use'])
    expect((await routing.get()).public_ipv4_addresses).to.have.length(2)
  })

  it('belong to the requested host, and are separate for each host', async () => {
    await routing.put({ items: [address(10)] }, '?host_id=host-b')
    expect((await routing.get()).public_ipv4_addresses).to.deep.equal([])
    expect(await routing.get('?host_id=host-b')).to.deep.include({ host_id: 'host-b' })
    expect((await routing.get('?host_id=host-b')).public_ipv4_addresses).to.have.length(1)
    const ask = (method: 'GET' | 'PUT', path: string) =>
      gateway.request(method, path, method === 'PUT' ? { body: {} } : {})
    await gateway.fleet.setHostState('host-b', 'offline')
    try {
      for (const [method, path] of [
        ['GET', '/routing'],
        ['PUT', '/routing'],
        ['GET', '/ipv6/status'],
      ] as const) {
        const unknown = await ask(method, `${path}?host_id=nowhere`)
        expect([unknown.status, unknown.body.details?.field]).to.deep.equal([400, 'host_id'])
        expect((await ask(method, `${path}?host_id=host-b`)).body.code).to.equal('host_offline')
      }
    } finally {
      await gateway.fleet.setHostState('host-b', 'online')
    }
  })

  it('show a key bound to containers only the addresses and ports of these containers', async () => {
    await routing.put({ items: [address(10), address(11), address(12)], ipv6_prefixes: [prefix] })
    const mine = (await routing.create({ name: 'mine', ipv4_count: 1, ipv6_count: 1 })).body.data
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [mine.uuid as string] })
    const ask = async () => (await gateway.request('GET', '/routing', { key })).body.data as Record<string, object[]>
    const before = await ask()
    expect(before).to.deep.include({
      nat4: { used: 1, remaining: '0', total: '1' },
      ipv4: { used: 1, remaining: '0', total: '1' },
      ipv6: { used: 1, remaining: '0', total: '1' },
    })
    expect(before['public_ipv4_addresses']).to.have.length(1)
    for (const list of ['ipv4_assignments', 'nat4_mappings', 'ipv6_assignments'])
      expect((before[list] as { container_name: string }[]).map((one) => one.container_name)).to.deep.equal(['mine'])
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

  for (const [name, body, field] of [
    ['an invalid address', { items: [{ address: '203.0.113.256' }] }, 'items.0.address'],
    ["the host's own address", { items: [{ address: '192.0.2.10' }] }, 'items.0.address'],
    ['a prefix without a length', { ipv6_prefixes: [{ prefix: '2001:db8::' }] }, 'ipv6_prefixes.0.prefix'],
    ['a range of ports without an end', { nat4_port_range: { start: 30_009 } }, 'nat4_port_range.end'],
  ] as const)
    it(`cannot contain ${name}`, async () => {
      const { status, body: answer } = await routing.put(body)
      expect([status, answer.details?.field]).to.deep.equal([400, field])
    })
})
