import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { RoutingClient } from '../../support/network/routing-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('port mappings of a container', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })
  // Frees the ports, which the next test uses again.
  afterEach(() => new RoutingClient(gateway).clear())

  const path = (rest = '') => `/containers/${guest.name}/port-mappings${rest}`
  const add = (body: object) => gateway.request('POST', path(), { body })
  const ssh = () => ({ container_port: 22, host_port: guest.sshPort, protocol: 'tcp', description: 'SSH' })
  const stored = async () =>
    (await gateway.request('GET', `/containers/${guest.name}`)).body.data.port_mappings as object[]

  it('are all in the answer when one mapping is added, and are shown with the container immediately', async () => {
    const web = { protocol: 'tcp', host_port: 25_080, container_port: 80, description: 'web' }
    const { status, body } = await add(web)
    expect([status, body.data]).to.deep.equal([200, [ssh(), web]])
    expect(await stored()).to.deep.equal(body.data)
  })

  it('get a free host port if the request contains no host port or the port 0, for TCP and for UDP', async () => {
    await add({ container_port: 80 })
    const { body } = await add({ container_port: 53, host_port: 0, protocol: 'udp' })
    const [, web, dns] = body.data as { host_port: number; protocol: string }[]
    expect(web).to.deep.include({ container_port: 80, protocol: 'tcp', description: '' })
    expect(web?.host_port).to.be.at.least(20_000)
    expect(dns).to.deep.include({ container_port: 53, protocol: 'udp' })
  })

  it('can have a range of ports and one address of the host', async () => {
    const range = { container_port: 8000, host_port: 45_000, host_port_end: 45_099, host_ip: '192.0.2.10' }
    const { body } = await add(range)
    expect(body.data[1]).to.deep.equal({
      ...range,
      container_port_end: 8099,
      protocol: 'tcp',
      description: '',
    })
  })

  it('are refused with 409 if a host port is in use or outside the host’s range', async () => {
    const other = await gateway.fleet.addGuest()
    for (const body of [
      { container_port: 22, host_port: other.sshPort },
      { container_port: 22, host_port: other.sshPort - 5, host_port_end: other.sshPort + 5 },
      { container_port: 22, host_port: other.sshPort, host_ip: '192.0.2.10' },
      { container_port: 80, host_port: 80 },
      { container_port: 80, host_port: 59_999, host_port_end: 60_000 },
    ]) {
      const reply = await add(body)
      expect([reply.status, reply.body.code], JSON.stringify(body)).to.deep.equal([409, 'port_conflict'])
    }
    expect((await add({ container_port: 22, host_port: other.sshPort, protocol: 'udp' })).status).to.equal(200)
    expect(await stored()).to.have.length(2)
  })

  it('keep the fields that a change omits', async () => {
    const description = 'web 😀'
    await add({ container_port: 80, host_port: 26_000, description })
    const put = (body: object) => gateway.request('PUT', path('/1'), { body })
    expect((await put({ container_port: 8080 })).body.data[1]).to.deep.equal({
      container_port: 8080,
      host_port: 26_000,
      protocol: 'tcp',
      description,
    })
    expect((await put({ host_port: 26_001, description: '' })).body.data[1]).to.deep.equal({
      container_port: 8080,
      host_port: 26_001,
      protocol: 'tcp',
      description: '',
    })
    expect((await put({})).body.data).to.deep.equal(await stored())
    const conflict = await put({ host_port: guest.sshPort })
    expect([conflict.status, conflict.body.code]).to.deep.equal([409, 'port_conflict'])
  })

  it('are removed by their position in the list, and the answer contains the remaining mappings', async () => {
    for (const port of [81, 82]) await add({ container_port: port })
    const { status, body } = await gateway.request('DELETE', path('/1'))
    expect(status).to.equal(200)
    expect((body.data as { container_port: number }[]).map((one) => one.container_port)).to.deep.equal([22, 82])
    for (const index of ['2', '-1', 'x', '1.5', '99999999999', '%20', '0x0', '0e0', '00', '0.0', '+0'])
      for (const method of ['PUT', 'DELETE'] as const) {
        const reply = await gateway.request(method, path(`/${index}`), method === 'PUT' ? { body: {} } : {})
        expect([reply.status, reply.body.code], `${method} ${index}`).to.deep.equal([404, 'not_found'])
      }
  })

  it('are refused if a field is missing or invalid, and the error names the field', async () => {
    for (const [body, code, field] of [
      [{}, 'missing_field', 'container_port'],
      [{ container_port: 0 }, 'invalid_field', 'container_port'],
      [{ container_port: 80, host_port: 9, host_port_end: 8 }, 'invalid_field', 'host_port_end'],
    ] as const) {
      const reply = await add(body)
      const { code: got, details } = reply.body
      expect([reply.status, got, details?.field], JSON.stringify(body)).to.deep.equal([400, code, field])
    }
  })

  it('can use the single port or the several ports that a search for free ports has found', async () => {
    const ask = async (query: string) => gateway.request('GET', `/containers/${guest.id}/random-port${query}`)
    const one = (await ask('')).body.data
    expect(Object.keys(one as object)).to.deep.equal(['port'])
    expect((await add({ container_port: 80, host_port: one.port as number })).status).to.equal(200)
    const many = (await ask('?count=5&protocol=tcp&host_ip=192.0.2.10')).body.data
    expect(new Set(many.ports as number[]).size).to.equal(5)
    expect(many.ports).to.include(many.port).and.not.to.include(one.port)
    for (const query of ['?count=0', '?count=1001', '?protocol=icmp', '?count=x', '?count=0x3', '?count=%20'])
      expect((await ask(query)).status, query).to.equal(400)
    const full = await ask('?count=1000')
    expect(full.body.data.ports).to.have.length(1000)
  })

  it('have a search for free ports, which accepts any IPv6 notation and answers 409 if too few ports are free', async () => {
    const there = await gateway.fleet.addGuest({ portMappings: [], ipv6Addresses: ['2001:db8:1::7'] }, 'host-b')
    const ask = (query: string) => gateway.request('GET', `/containers/${there.id}/random-port${query}`)
    const setPorts = (start: number, end: number) =>
      gateway.request('PUT', '/routing?host_id=host-b', { body: { nat4_port_range: { start, end } } })
    expect((await setPorts(30_000, 30_019)).status).to.equal(200)
    const range = { container_port: 8000, host_port: 30_000, host_port_end: 30_009, host_ip: '2001:db8::a' }
    const mapped = await gateway.request('POST', `/containers/${there.id}/port-mappings`, { body: range })
    expect(mapped.body.data).to.have.length(1)
    const { ports } = (await ask('?count=10&host_ip=2001:DB8:0:0::A')).body.data
    expect((ports as number[]).sort()).to.deep.equal(Array.from({ length: 10 }, (_, n) => 30_010 + n))
    const full = await ask('?count=11&host_ip=2001:db8::a')
    expect([full.status, full.body.code]).to.deep.equal([409, 'resource_exhausted'])
    expect((await ask('?count=20&protocol=udp&host_ip=2001:db8::a')).status).to.equal(200)
    for (const address of ['eth0', '10.0.0.0/8', 'fe80::1%25eth0', '192.0.2.12', '203.0.113.1']) {
      const { status, body } = await ask(`?host_ip=${address}`)
      expect([status, body.details?.field], address).to.deep.equal([400, 'host_ip'])
    }
  })

  it('keep the length of their port range if a change contains only the first port of each range', async () => {
    await add({ container_port: 8000, host_port: 46_000, host_port_end: 46_009 })
    const put = (body: object) => gateway.request('PUT', path('/1'), { body })
    const moved = (await put({ container_port: 9000, host_port: 47_000 })).body.data[1]
    expect(moved).to.include({ container_port: 9000, container_port_end: 9009 })
    expect(moved).to.include({ host_port: 47_000, host_port_end: 47_009 })
  })

  it('can be added when a container is created', async () => {
    const { body } = await gateway.request('POST', '/containers', {
      body: {
        name: 'mapped',
        template_id: 'debian-12',
        port_mapping_count: 2,
        nat_port_mappings: [{ container_port: 7000, container_port_end: 7009, protocol: 'udp' }],
      },
    })
    const row = (await gateway.request('GET', `/containers/${body.data.id}`)).body.data
    const [first, second, third] = row.port_mappings as Record<string, number>[]
    expect([first?.['container_port'], first?.['host_port']]).to.deep.equal([22, row.ssh_port])
    expect(second?.['container_port']).to.equal(second?.['host_port'])
    expect(third).to.include({ container_port: 7000, container_port_end: 7009 })
    expect(third!['host_port_end']! - third!['host_port']!).to.equal(9)
  })
})
