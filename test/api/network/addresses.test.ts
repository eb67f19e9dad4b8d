import { expect } from 'chai'
import { poolAddress as address, poolPrefix as prefix, RoutingClient } from '../../support/network/routing-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('addresses of containers', () => {
  let gateway: TestGateway
  let routing: RoutingClient
  before(async () => {
    gateway = await startTestGateway()
    routing = new RoutingClient(gateway)
  })
  after(() => gateway.close())
  afterEach(() => routing.clear())

  it('from a pool of 8 are assigned to only 8 of 40 concurrent creations, and the failed creations leave nothing behind', async () => {
    await routing.put({ items: Array.from({ length: 8 }, (_, index) => address(10 + index)) })
    const replies = await Promise.all(
      Array.from({ length: 40 }, (_, index) => routing.create({ name: `pool-${index}`, assign_ipv4: true })),
    )
    const codes = replies.map(({ status, body }) => (status === 202 ? 'created' : (body.code as string)))
    expect(codes.filter((code) => code === 'created')).to.have.length(8)
    expect(codes.filter((code) => code === 'resource_exhausted')).to.have.length(32)
    expect(replies.filter(({ status }) => status === 409)).to.have.length(32)
    expect((await routing.get()).ipv4).to.deep.equal({ used: 8, remaining: '0', total: '8' })
    expect((await gateway.request('GET', '/containers')).body.data).to.have.length(8)
  })

  it('are listed by a scan of an IPv4 network', async () => {
    await routing.put({ items: [address(10)] })
    const scan = (body: object) => gateway.request('POST', '/routing/ipv4-scan', { body })
    const { status, body } = await scan({ cidr: '203.0.113.5/28', gateway: '203.0.113.1' })
    expect(status).to.equal(200)
    const rows = body.data as { address: string; status: string; usable: boolean }[]
    expect(rows).to.have.length(16)
    expect(Object.keys(rows[0]!)).to.have.members([
      'address',
      'interface',
      'prefix_len',
      'gateway',
      'status',
      'usable',
      'reason',
    ])
    const statusOf = (last: number) => rows.find((row) => row.address === `203.0.113.${last}`)?.status
    expect([statusOf(1), statusOf(10), statusOf(11)]).to.deep.equal(['gateway', 'pool', 'unknown'])
    const quick = await scan({ cidr: '203.0.113.0/28', verify: false, limit: 3 })
    expect((quick.body.data as object[]).length).to.equal(3)
    for (const cidr of ['203.0.113.0/23', '2001:db8::/120', 'x', '', '203.0.113.0/24; reboot'])
      expect((await scan({ cidr })).body.details?.field, cidr).to.equal('cidr')
    expect((await scan({})).body.code).to.equal('missing_field')
  })

  it('have an IPv6 status that says whether IPv6 is available, and why it is not available', async () => {
    const status = async () => (await gateway.request('GET', '/ipv6/status')).body.data as object
    expect(await status()).to.deep.equal({
      host_id: 'host-a',
      available: false,
      reachable: false,
      prefixes: [],
      mode: '',
      reason: 'the host has no IPv6 default route, and no prefix is set; the host has no IPv6 default route',
    })
    await routing.put({ ipv6_prefixes: [prefix] })
    expect(await status()).to.deep.include({ available: true, prefixes: [prefix], mode: 'routed' })
  })

  it('can be one IPv6 address, several IPv6 addresses or the requested IPv6 addresses', async () => {
    const { id, name } = await gateway.fleet.addGuest()
    const assign = (body?: unknown) =>
      gateway.request('POST', `/containers/${id}/ipv6`, body === undefined ? {} : { body })
    const none = await assign()
    expect([none.status, none.body.code]).to.deep.equal([409, 'resource_exhausted'])
    await routing.put({ ipv6_prefixes: [prefix] })
    const one = (await assign([])).body.data
    expect(one).to.deep.equal({ id, name, ipv6: one.ipv6 as string, ipv6_addresses: [one.ipv6] })
    expect(one.ipv6).to.match(/^2001:db8:1:0?:/)
    expect((await assign()).body.data, 'it has one').to.deep.equal(one)
    const more = (await assign({ ipv6_count: 2, ipv6_addresses: ['2001:DB8:1:0::ff'] })).body.data
    expect(more.ipv6).to.equal(one.ipv6)
    expect(more.ipv6_addresses).to.have.length(4).and.to.include('2001:db8:1::ff')
    const taken = await assign({ ipv6_addresses: ['2001:db8:1::ff'] })
    expect([taken.status, taken.body.code]).to.deep.equal([409, 'address_in_use'])
    const bad = await assign({ ipv6_addresses: ['::1', '10.0.0.1'] })
    expect([bad.status, bad.body.details?.field]).to.deep.equal([400, 'ipv6_addresses.1'])
    // The first address is outside of the prefixes. The other three belong to the network, the host and the router.
    await routing.put({ ipv6_prefixes: [{ ...prefix, gateway: '2001:db8:1::fe' }] })
    for (const last of ['2001:db8:2::5', '2001:db8:1::', '2001:db8:1::1', '2001:db8:1::fe']) {
      const { status, body } = await assign({ ipv6_addresses: [last] })
      expect([status, body.details?.field], last).to.deep.equal([400, 'ipv6_addresses'])
    }
    const many = await assign({ ipv6_count: 253 })
    expect([many.status, many.body.code], 'more than 256').to.deep.equal([409, 'resource_exhausted'])
  })
})
