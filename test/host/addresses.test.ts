import { expect } from 'chai'
import type { GuestNetwork } from '../../agent/network/contract.js'
import type { Ipv6Status, RoutingState } from '../../agent/network/addresses/routing.js'
import type { ScannedAddress } from '../../agent/network/addresses/plan-scan.js'
import { openAddressBook, runGuest } from '../support/address-book.js'
import {
  type AgentNetwork,
  clientAddress,
  clientAddress6,
  hostAddress,
  hostAddress6,
  NetworkLab,
} from '../support/network-lab.js'
import { waitFor } from '../support/wait.js'

/*
 * Public IPv4 and IPv6 of guests, seen from a namespace on the same segment as the host: real ARP, neighbour
 * discovery and packets.
 */

const [publicA, publicB, routedA] = ['198.51.100.10', '198.51.100.11', '203.0.113.9']
const poolItem = (address: string) => ({ address, interface: 'up0', prefixLen: 24, gateway: '' })
const prefixItem = (prefix: string, prefixLen: number) => ({
  interface: 'up0',
  address: '',
  prefix,
  prefixLen,
  gateway: '',
})

describe('addresses of guests', function () {
  this.timeout(60_000)
  const lab = new NetworkLab('btestaddr')
  let a = lab.guest(11)
  let b = lab.guest(12)
  const [inA, inB] = [a, b].map((guest) => lab.namespaceOf(guest)) as [string, string]
  let network: AgentNetwork
  let book: AgentNetwork

  before(async () => {
    lab.build()
    network = lab.agent()
    await network.ensure([a, b])
    book = openAddressBook(lab)
    for (const guest of [a, b]) {
      await runGuest(lab, book, guest)
      await attach(guest)
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    await lab.serve(lab.host, 'host', 'tcp:8080')
    await waitFor(() => lab.ask(inA, `tcp:${clientAddress}:80`), { what: 'the way out' })
  })

  after(() => lab.remove())

  async function attach(guest: GuestNetwork): Promise<void> {
    await network.call('attach', guest)
    await book.call('attach', guest)
  }

  const routing = (change: unknown): Promise<RoutingState> =>
    book.call('setRouting', change) as Promise<RoutingState>
  const status = (): Promise<Ipv6Status> => book.call('status') as Promise<Ipv6Status>
  const repairs = (): Promise<string[]> => book.call('ensure') as Promise<string[]>
  const failure = (call: Promise<unknown>): Promise<string> =>
    call.then(
      () => 'accepted',
      (error: Error) => error.message,
    )
  const show = (...args: string[]): string => lab.in(lab.host, 'ip', ...args)

  describe('public IPv4', () => {
    before(async () => {
      await routing({ ipv4Pool: [publicA, publicB, routedA].map(poolItem) })
      lab.in(lab.client, 'ip', 'route', 'add', `${routedA}/32`, 'via', hostAddress)
      // Who had the address before is still known to others.
      lab.in(
        lab.client,
        'ip',
        'neigh',
        'replace',
        publicA,
        'lladdr',
        '02:00:00:00:00:99',
        'dev',
        'eth0',
        'nud',
        'stale',
      )
      a = { ...a, publicIpv4s: [publicA, routedA] }
      b = { ...b, publicIpv4s: [publicB] }
      await attach(a)
      await attach(b)
    })

    it('is announced, so that nobody goes on with who had it before', async () => {
      const mac = lab.in(lab.host, 'cat', '/sys/class/net/up0/address').trim()
      const known = (): string => lab.in(lab.client, 'ip', 'neigh', 'show', publicA)
      await waitFor(() => known().includes(mac), { what: () => `the host's mac for ${publicA}: ${known()}` })
    })

    it('leads each to its guest, who sees the client', () => {
      expect(lab.ask(lab.client, `tcp:${publicA}:22`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `udp:${publicA}:53`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${publicB}:22`)).to.equal(`bt12 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${routedA}:22`)).to.equal(`bt11 ${clientAddress}`)
    })

    it('is what the guest leaves with, the first of several', () => {
      expect(lab.ask(inA, `tcp:${clientAddress}:80`)).to.equal(`client ${publicA}`)
      expect(lab.ask(inB, `udp:${clientAddress}:53`)).to.equal(`client ${publicB}`)
    })

    it('leaves the host its own', () => {
      expect(lab.ask(lab.client, `tcp:${hostAddress}:8080`)).to.equal(`host ${clientAddress}`)
      expect(lab.ask(lab.host, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
    })

    it('is repaired, and what nobody has is taken away', async () => {
      expect(await repairs()).to.deep.equal([])
      const [, metric = ''] =
        /198\.51\.100\.10\/32 metric (\d+)/.exec(show('address', 'show', 'dev', 'up0')) ?? []
      show('address', 'delete', `${publicA}/32`, 'dev', 'up0')
      show('address', 'add', '203.0.113.77/32', 'dev', 'up0', 'metric', metric)
      show('address', 'add', '203.0.113.78/32', 'dev', 'up0')
      lab.in(lab.client, 'ip', 'neigh', 'delete', publicA, 'dev', 'eth0')
      expect(lab.ask(lab.client, `tcp:${publicA}:22`, { timeoutSeconds: 0.3 })).to.equal('')
      expect(await repairs()).to.deep.equal([
        'ip address delete 203.0.113.77/32 dev up0',
        `ip address replace ${publicA}/32 dev up0 metric ${metric}`,
      ])
      expect(await repairs()).to.deep.equal([])
      await waitFor(() => lab.ask(lab.client, `tcp:${publicA}:22`) === `bt11 ${clientAddress}`)
      expect(show('address', 'show', 'dev', 'up0')).to.contain('203.0.113.78/32')
    })

    it('stays the operator’s where he configured it himself', async () => {
      show('address', 'delete', `${publicB}/32`, 'dev', 'up0')
      show('address', 'add', `${publicB}/24`, 'dev', 'up0')
      expect(await repairs()).to.deep.equal([])
      expect(lab.ask(lab.client, `tcp:${publicB}:22`)).to.equal(`bt12 ${clientAddress}`)
      await book.call('detach', b)
      expect(show('address', 'show', 'dev', 'up0')).to.contain(`${publicB}/24`)
      show('address', 'delete', `${publicB}/24`, 'dev', 'up0')
      await attach(b)
      expect(show('address', 'show', 'dev', 'up0')).to.contain(`${publicB}/32`)
    })

    it('goes with its guest', async () => {
      const c = { ...lab.guest(13), publicIpv4s: ['198.51.100.12'] }
      await routing({ ipv4Pool: [publicA, publicB, routedA, '198.51.100.12'].map(poolItem) })
      await book.call('attach', c)
      expect(show('address', 'show', 'dev', 'up0')).to.contain('198.51.100.12/32')
      await book.call('detach', c)
      expect(show('address', 'show', 'dev', 'up0')).to.not.contain('198.51.100.12')
      expect(await repairs(), 'deleted, but still journaled').to.deep.equal([])
      await book.call('remove', c.uuid)
    })

    it('is not taken out of the pool while a guest has it', async () => {
      expect(await failure(routing({ ipv4Pool: [poolItem(publicB), poolItem(routedA)] }))).to.contain(publicA)
      expect(await failure(routing({ ipv4Pool: [poolItem(hostAddress)] }))).to.contain("host's own")
      const { ipv4Pool, ipv4Assignments } = (await book.call('getRouting')) as RoutingState
      expect(ipv4Pool.map(({ address }) => address)).to.deep.equal([
        publicA,
        publicB,
        '198.51.100.12',
        routedA,
      ])
      expect(ipv4Assignments).to.deep.include({ ...poolItem(publicB), guestUuid: b.uuid })
    })

    it('is given to exactly as many as there are', async () => {
      const order = { ipv4Count: 2, publicIpv4s: [], ipv6Count: 0, ipv6Addresses: [] }
      expect(await failure(book.call('choose', order))).to.contain(
        '2 public IPv4 addresses asked for, 1 left',
      )
      expect(await book.call('choose', { ...order, ipv4Count: 1 })).to.deep.equal({
        publicIpv4s: ['198.51.100.12'],
        ipv6Addresses: [],
      })
    })
  })

  describe('a scan of the segment', () => {
    const found = async (request: object): Promise<Map<string, ScannedAddress>> => {
      const all = { interface: '', gateway: '', verify: true, limit: 0, ...request }
      const items = (await book.call('scan', all)) as ScannedAddress[]
      return new Map(items.map((item) => [item.address.address, item]))
    }

    before(() => {
      lab.in(lab.client, 'ip', 'address', 'add', '198.51.100.20/24', 'dev', 'eth0')
      show('address', 'add', '198.51.100.5/24', 'dev', 'up0')
    })

    it('tells what each address is', async () => {
      const items = await found({ cidr: '198.51.100.0/27' })
      const of = (address: string) => [items.get(address)?.status, items.get(address)?.usable]
      expect(items.size).to.equal(32)
      expect(of(hostAddress)).to.deep.equal(['host', false])
      expect(of(clientAddress)).to.deep.equal(['gateway', false])
      expect(of(publicA)).to.deep.equal(['assigned', false])
      expect(of('198.51.100.12')).to.deep.equal(['pool', true])
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

    it('finds who has an address of a network that the host is not in', async () => {
      lab.in(lab.client, 'ip', 'address', 'add', '203.0.113.50/32', 'dev', 'eth0')
      const items = await found({ cidr: '203.0.113.48/30', interface: 'up0' })
      expect([...items.values()].map(({ status }) => status)).to.deep.equal([
        'available',
        'available',
        'in_use',
        'available',
      ])
    })

    it('tells of an address in the pool that somebody else has', async () => {
      lab.in(lab.client, 'ip', 'address', 'add', '198.51.100.12/32', 'dev', 'eth0')
      const item = (await found({ cidr: '198.51.100.12' })).get('198.51.100.12')!
      expect([item.status, item.usable]).to.deep.equal(['pool', false])
      expect(item.reason).to.contain('answers for it')
      lab.in(lab.client, 'ip', 'address', 'delete', '198.51.100.12/32', 'dev', 'eth0')
    })

    it('asks nobody unless told to, and leaves nothing behind', async () => {
      const items = await found({ cidr: '198.51.100.20/30', verify: false, limit: 2 })
      expect([...items.values()].map(({ status }) => status)).to.deep.equal(['unknown', 'unknown'])
      expect(show('neigh', 'show', 'dev', 'up0')).to.not.match(/FAILED|INCOMPLETE/)
    })

    for (const [name, request] of [
      ['larger than /24', { cidr: '198.51.100.0/23' }],
      ['IPv6', { cidr: '2001:db8::/120' }],
      ['the bridge', { cidr: '198.51.100.0/28', interface: 'berth0' }],
      ['another interface', { cidr: '198.51.100.0/28', interface: 'up0 up' }],
    ] as const)
      it(`refuses: ${name}`, async () =>
        expect(await failure(found(request))).to.match(/must be|no such interface/))
  })

  describe('IPv6', () => {
    const [proxied, routed] = ['2001:db8:51::a:1', '2001:db8:77::7']

    it('is found where the host has a prefix, with what it says of the router', async () => {
      const { reason, ...found } = await status()
      expect(found).to.deep.equal({
        available: true,
        reachable: true,
        prefixes: [
          {
            interface: 'up0',
            address: hostAddress6,
            prefix: '2001:db8:51::',
            prefixLen: 64,
            gateway: clientAddress6,
          },
        ],
        mode: 'proxied',
      })
      expect(reason).to.equal('prefix found on up0')
    })

    it('of a prefix on the segment: the host answers for the guest, on a running one at once', async () => {
      // As of a host that has not forwarded before, and learns its routes from a router.
      lab.in(lab.host, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=0', 'net.ipv6.conf.up0.accept_ra=1')
      a = { ...a, ipv6Addresses: [proxied] }
      await attach(a)
      expect(lab.in(lab.host, 'sysctl', '-n', 'net.ipv6.conf.up0.accept_ra').trim()).to.equal('2')
      expect(lab.in(inA, 'ip', '-6', 'address', 'show', 'dev', 'eth0')).to.contain(`${proxied}/128`)
      await waitFor(() => lab.ask(lab.client, `tcp:${proxied}:22`))
      expect(lab.ask(lab.client, `tcp:${proxied}:22`)).to.equal(`bt11 ${clientAddress6}`)
      expect(lab.ask(inA, `tcp:${clientAddress6}:80`)).to.equal(`client ${proxied}`)
    })

    it('is not given up for a prefix that is set where this one was found', async () => {
      expect(await failure(routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64)] }))).to.contain(proxied)
      expect(show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
      expect(await status()).to.include({ mode: 'proxied', reason: 'prefix found on up0' })
    })

    it('of a prefix that is routed to the host', async () => {
      await routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64), prefixItem('2001:db8:51::a:0', 112)] })
      const prefixes = ((await book.call('getRouting')) as RoutingState).ipv6Prefixes.map(
        ({ prefix }) => prefix,
      )
      expect(prefixes).to.deep.equal(['2001:db8:51::a:0', '2001:db8:77::'])
      b = { ...b, ipv6Addresses: [routed] }
      await attach(b)
      expect(lab.ask(lab.client, `tcp:${routed}:22`)).to.equal(`bt12 ${clientAddress6}`)
      expect(lab.ask(inB, `tcp:${clientAddress6}:80`)).to.equal(`client ${routed}`)
      expect(show('-6', 'neigh', 'show', 'proxy'))
        .to.contain(proxied)
        .and.not.contain(routed)
    })

    it('guests reach one another by way of the host', () => {
      expect(lab.ask(inA, `tcp:${routed}:22`)).to.equal(`bt12 ${proxied}`)
      expect(lab.ask(inB, `tcp:${proxied}:22`)).to.equal(`bt11 ${routed}`)
    })

    for (const [prefix, prefixLen, client] of [
      ['2001:db8:100::', 48, '2001:db8:100::'],
      ['2001:db8:51:0:b::', 80, ''],
      ['2001:db8:51::c0', 124, ''],
    ] as const)
      it(`of a /${prefixLen}, ${client === '' ? 'on the segment' : 'routed'}`, async () => {
        if (client) lab.in(lab.client, 'ip', 'route', 'add', `${prefix}/${prefixLen}`, 'via', hostAddress6)
        const kept = [prefixItem('2001:db8:77::', 64), prefixItem('2001:db8:51::a:0', 112)]
        await routing({ ipv6Prefixes: [prefixItem(prefix, prefixLen), ...kept] })
        const order = { ipv4Count: 0, publicIpv4s: [], ipv6Count: 1, ipv6Addresses: [] }
        const { ipv6Addresses } = (await book.call('choose', order)) as { ipv6Addresses: string[] }
        const before = b
        await attach({ ...b, ipv6Addresses: [...b.ipv6Addresses, ...ipv6Addresses] })
        const ask = (): string => lab.ask(lab.client, `tcp:${ipv6Addresses[0]}:22`)
        await waitFor(() => ask() === `bt12 ${clientAddress6}`, { what: `${ipv6Addresses[0]} to answer` })
        await attach(before)
        expect(lab.in(inB, 'ip', '-6', 'address', 'show')).to.not.contain(ipv6Addresses[0])
        expect(show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(ipv6Addresses[0])
        await routing({ ipv6Prefixes: kept })
      })

    it('is repaired', async () => {
      expect(await repairs()).to.deep.equal([])
      show('-6', 'neigh', 'delete', 'proxy', proxied, 'dev', 'up0')
      show('-6', 'route', 'delete', `${routed}/128`, 'dev', 'berth0')
      show('-6', 'neigh', 'replace', proxied, 'lladdr', b.mac, 'dev', 'berth0', 'nud', 'permanent')
      show('address', 'delete', 'fe80::1/64', 'dev', 'berth0')
      lab.in(lab.host, 'sysctl', '-qw', 'net.ipv6.conf.up0.proxy_ndp=0', 'net.ipv6.conf.all.forwarding=0')
      expect(await repairs()).to.have.length(6)
      expect(await repairs()).to.deep.equal([])
      await waitFor(() => lab.ask(lab.client, `tcp:${proxied}:22`))
      await waitFor(() => lab.ask(lab.client, `tcp:${routed}:22`))
    })

    it('is not given up with the prefix it is of', async () => {
      expect(await failure(routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64)] }))).to.contain(proxied)
      expect(await failure(routing({ ipv6Prefixes: [] }))).to.contain('is a container')
      const { ipv6Assignments } = (await book.call('getRouting')) as RoutingState
      expect(ipv6Assignments.map(({ address, prefixLen }) => [address, prefixLen])).to.deep.equal([
        [proxied, 112],
        [routed, 64],
      ])
    })

    it('is served as before after a change that the host refused, though another guest fails all the while', async () => {
      const failing = { ...lab.guest(14), mac: 'none', ipv6Addresses: ['2001:db8:77::14'] }
      show('link', 'add', 'up1', 'type', 'veth', 'peer', 'name', 'up2')
      await book.call('store', failing)
      await attach(a) // comes after the one that fails
      const moved = { ...prefixItem('2001:db8:51::a:0', 112), interface: 'up1' }
      expect(await failure(routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64), moved] }))).to.contain(
        'none',
      )
      const { ipv6Prefixes } = (await book.call('getRouting')) as RoutingState
      expect(ipv6Prefixes.map((one) => one.interface)).to.deep.equal(['up0', 'up0'])
      expect(show('-6', 'neigh', 'show', 'proxy')).to.contain(`${proxied} dev up0`)
      expect(lab.ask(lab.client, `tcp:${proxied}:22`)).to.equal(`bt11 ${clientAddress6}`)
      await book.call('remove', failing.uuid)
      show('link', 'delete', 'up1')
      await repairs()
      expect(await repairs()).to.deep.equal([])
    })

    it('goes with its guest', async () => {
      await book.call('detach', a)
      expect(show('-6', 'neigh', 'show', 'proxy')).to.equal('')
      expect(show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(proxied)
      expect(show('-6', 'neigh', 'show', 'dev', 'berth0')).to.not.contain(proxied)
      await attach(a)
      expect(show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
    })

    it('goes with its guest also where some of it is gone already', async () => {
      show('-6', 'neigh', 'delete', 'proxy', proxied, 'dev', 'up0')
      show('-6', 'neigh', 'delete', proxied, 'dev', 'berth0')
      await book.call('detach', a)
      expect(show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(proxied)
      await attach(a)
      expect(show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
    })

    it('status: an interface that is gone, with its prefix', async () => {
      const before = await routing({})
      show('link', 'add', 'gone0', 'type', 'bridge')
      const prefix = {
        ...{ interface: 'gone0', address: '', gateway: '' },
        prefix: '2001:db8:99::',
        prefixLen: 48,
      }
      // Beside those that guests have addresses of.
      await routing({ ipv6Prefixes: [...before.ipv6Prefixes, prefix] })
      const reason = 'IPv6 prefixes belong on gone0, which is not there'
      expect((await status()).reason).to.not.contain(reason)
      show('link', 'delete', 'gone0')
      expect(await status()).to.include({ available: true, reason })
      expect(await book.call('warnings')).to.include(reason)
      const order = { ipv4Count: 0, publicIpv4s: [], ipv6Count: 0, ipv6Addresses: ['2001:db8:99::9'] }
      expect(await failure(book.call('choose', order))).to.contain('is of no prefix')
      await routing({ ipv6Prefixes: before.ipv6Prefixes })
    })

    it('status: a router that does not answer, no route, nothing', async () => {
      lab.in(lab.client, 'ip', '-6', 'address', 'delete', `${clientAddress6}/64`, 'dev', 'eth0')
      expect(await status()).to.include({ available: true, reachable: false })
      expect((await status()).reason).to.equal(`the router ${clientAddress6} on up0 does not answer`)
      show('-6', 'route', 'delete', 'default')
      expect((await status()).reason).to.equal('the host has no IPv6 default route')
      expect(await status()).to.include({ available: true, reachable: false, mode: 'proxied' })
    })
  })

  describe('a purge', () => {
    it('takes off what the agent put on, without its journal, and nothing else', async () => {
      await book.call('purge')
      const left = show('address', 'show', 'dev', 'up0')
      for (const address of [publicA, publicB, routedA]) expect(left).to.not.contain(`${address}/`)
      expect(left)
        .to.contain('203.0.113.78/32')
        .and.contain(`${hostAddress}/24`)
        .and.contain('198.51.100.5/24')
      expect(show('-6', 'neigh', 'show', 'proxy')).to.equal('')
      await book.end()
      await network.end()
    })
  })
})
