import { expect } from 'chai'
import { AddressedPair, failure, poolItem } from '../support/network/addressed-pair.js'
import { clientAddress, hostAddress } from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Tests public IPv4 addresses from a namespace on the host's segment, with real ARP and packets. */

const [publicA, publicB, routedA] = ['198.51.100.10', '198.51.100.11', '203.0.113.9']

describe('a public IPv4 address of a guest', function () {
  const pair = new AddressedPair('btestadr4')
  const { lab } = pair

  before(() => pair.open())
  after(() => lab.remove())

  before(async () => {
    await pair.routing({ ipv4Pool: [publicA, publicB, routedA].map(poolItem) })
    lab.in(lab.client, 'ip', 'route', 'add', `${routedA}/32`, 'via', hostAddress)
    // The client still has a neighbour entry for the previous owner of the address.
    lab.in(lab.client, 'ip', 'neigh', 'replace', publicA, 'lladdr', '02:00:00:00:00:99', 'dev', 'eth0', 'nud', 'stale')
    pair.a = { ...pair.a, publicIpv4s: [publicA, routedA] }
    pair.b = { ...pair.b, publicIpv4s: [publicB] }
    await pair.attach(pair.a)
    await pair.attach(pair.b)
  })

  it('is announced to the network, so that other machines no longer send packets to its former owner', async () => {
    const mac = lab.in(lab.host, 'cat', '/sys/class/net/up0/address').trim()
    const known = (): string => lab.in(lab.client, 'ip', 'neigh', 'show', publicA)
    await waitFor(() => known().includes(mac), { what: () => `the host's mac for ${publicA}: ${known()}` })
  })

  it('leads to its guest, which sees the client’s real address', () => {
    expect(lab.answer(lab.client, `tcp:${publicA}:22`)).to.equal(`bt11 ${clientAddress}`)
    expect(lab.answer(lab.client, `udp:${publicA}:53`)).to.equal(`bt11 ${clientAddress}`)
    expect(lab.answer(lab.client, `tcp:${publicB}:22`)).to.equal(`bt12 ${clientAddress}`)
    expect(lab.answer(lab.client, `tcp:${routedA}:22`)).to.equal(`bt11 ${clientAddress}`)
  })

  it('is the source address of the guest if it is the first public address of the guest', () => {
    expect(lab.answer(pair.inA, `tcp:${clientAddress}:80`)).to.equal(`client ${publicA}`)
    expect(lab.answer(pair.inB, `udp:${clientAddress}:53`)).to.equal(`client ${publicB}`)
  })

  it('does not change the source address of the host', () => {
    expect(lab.answer(lab.client, `tcp:${hostAddress}:8080`)).to.equal(`host ${clientAddress}`)
    expect(lab.answer(lab.host, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
  })

  it('is restored if another program removes it, while an unknown address with the metric of the agent is removed', async () => {
    expect(await pair.repairs()).to.deep.equal([])
    const [, metric = ''] = /198\.51\.100\.10\/32 metric (\d+)/.exec(pair.show('address', 'show', 'dev', 'up0')) ?? []
    pair.show('address', 'delete', `${publicA}/32`, 'dev', 'up0')
    pair.show('address', 'add', '203.0.113.77/32', 'dev', 'up0', 'metric', metric)
    pair.show('address', 'add', '203.0.113.78/32', 'dev', 'up0')
    lab.in(lab.client, 'ip', 'neigh', 'delete', publicA, 'dev', 'eth0')
    expect(lab.ask(lab.client, `tcp:${publicA}:22`, { timeoutSeconds: 0.3 })).to.equal('')
    expect(await pair.repairs()).to.deep.equal([
      'ip address delete 203.0.113.77/32 dev up0',
      `ip address replace ${publicA}/32 dev up0 metric ${metric}`,
    ])
    expect(await pair.repairs()).to.deep.equal([])
    await waitFor(() => lab.ask(lab.client, `tcp:${publicA}:22`) === `bt11 ${clientAddress}`)
    expect(pair.show('address', 'show', 'dev', 'up0')).to.contain('203.0.113.78/32')
  })

  it('stays on the host after its guest is detached if the operator added the address', async () => {
    pair.show('address', 'delete', `${publicB}/32`, 'dev', 'up0')
    pair.show('address', 'add', `${publicB}/24`, 'dev', 'up0')
    expect(await pair.repairs()).to.deep.equal([])
    expect(lab.answer(lab.client, `tcp:${publicB}:22`)).to.equal(`bt12 ${clientAddress}`)
    await pair.book.call('detach', pair.b)
    expect(pair.show('address', 'show', 'dev', 'up0')).to.contain(`${publicB}/24`)
    pair.show('address', 'delete', `${publicB}/24`, 'dev', 'up0')
    await pair.attach(pair.b)
    expect(pair.show('address', 'show', 'dev', 'up0')).to.contain(`${publicB}/32`)
  })

  it('causes a warning while another machine also uses it', async () => {
    lab.in(lab.client, 'ip', 'address', 'add', `${publicB}/32`, 'dev', 'eth0')
    const mac = lab.in(lab.client, 'cat', '/sys/class/net/eth0/address').trim()
    const warnings = async (): Promise<string> => JSON.stringify(await pair.book.call('warnings'))
    expect(await warnings()).to.not.contain(publicB)
    await pair.attach({ ...pair.b, publicIpv4s: [] })
    await pair.attach(pair.b)
    await waitFor(async () => (await warnings()).includes(`but ${mac} on up0 also answers`), {
      what: 'a warning',
    })
    lab.in(lab.client, 'ip', 'address', 'delete', `${publicB}/32`, 'dev', 'eth0')
    await pair.attach({ ...pair.b, publicIpv4s: [] })
    await pair.repairs()
    expect(await warnings()).to.not.contain(publicB)
    await pair.attach(pair.b)
  })

  it('is removed from the host when its guest is deleted', async () => {
    const c = { ...lab.guest(13), publicIpv4s: ['198.51.100.12'] }
    await pair.routing({ ipv4Pool: [publicA, publicB, routedA, '198.51.100.12'].map(poolItem) })
    await pair.book.call('attach', c)
    expect(pair.show('address', 'show', 'dev', 'up0')).to.contain('198.51.100.12/32')
    await pair.book.call('detach', c)
    expect(pair.show('address', 'show', 'dev', 'up0')).to.not.contain('198.51.100.12')
    expect(await pair.repairs(), 'deleted, but still journaled').to.deep.equal([])
    await pair.book.call('remove', c.uuid)
  })

  it('cannot be removed from the pool while a guest has it', async () => {
    expect(await failure(pair.routing({ ipv4Pool: [poolItem(publicB), poolItem(routedA)] }))).to.contain(publicA)
    expect(await failure(pair.routing({ ipv4Pool: [poolItem(hostAddress)] }))).to.contain('belongs to the host')
    const { ipv4Pool, ipv4Assignments } = await pair.readRouting()
    expect(ipv4Pool.map(({ address }) => address)).to.deep.equal([publicA, publicB, '198.51.100.12', routedA])
    expect(ipv4Assignments).to.deep.include({ ...poolItem(publicB), guestUuid: pair.b.uuid })
  })

  it('is assigned to only one guest', async () => {
    const order = { ipv4Count: 2, publicIpv4s: [], ipv6Count: 0, ipv6Addresses: [] }
    expect(await failure(pair.book.call('choose', order))).to.contain(
      'the pool of the host has too few free IPv4 addresses: 2 requested, 1 free',
    )
    expect(await pair.book.call('choose', { ...order, ipv4Count: 1 })).to.deep.equal({
      publicIpv4s: ['198.51.100.12'],
      ipv6Addresses: [],
    })
  })

  it('is removed by a purge even if the journal is missing, while other addresses remain', async () => {
    await pair.attach({ ...pair.a, ipv6Addresses: ['2001:db8:51::a:1'] })
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.contain('2001:db8:51::a:1')
    await pair.book.call('purge')
    const left = pair.show('address', 'show', 'dev', 'up0')
    for (const address of [publicA, publicB, routedA]) expect(left).to.not.contain(`${address}/`)
    expect(left).to.contain('203.0.113.78/32').and.contain(`${hostAddress}/24`)
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.equal('')
    await pair.book.end()
    await pair.network.end()
  })
})
