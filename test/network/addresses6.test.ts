import { expect } from 'chai'
import { AddressedPair, failure, prefixItem } from '../support/network/addressed-pair.js'
import { clientAddress6, hostAddress6 } from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Tests IPv6 of guests from a namespace on the host's segment, with real neighbour discovery and packets. */

describe('IPv6 of guests', function () {
  const pair = new AddressedPair('btestadr6')
  const { lab } = pair

  before(() => pair.open())
  after(() => lab.remove())

  const [proxied, routed] = ['2001:db8:51::a:1', '2001:db8:77::7']

  it('is available, with a detected router, if the host has a prefix', async () => {
    const { reason, ...found } = await pair.ipv6Status()
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
    expect(reason).to.equal('guests get IPv6 addresses from the prefix that was found on the interface up0')
  })

  it('works for a running guest with an on-link prefix, because the host answers NDP for the guest', async () => {
    // These are the settings of a host that does not forward IPv6 and learns its routes from a router.
    lab.in(lab.host, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=0', 'net.ipv6.conf.up0.accept_ra=1')
    pair.a = { ...pair.a, ipv6Addresses: [proxied] }
    // Another host had the address before. Without packets, only an announcement can change the client's stale entry.
    const entry = [proxied, 'lladdr', '02:00:00:00:00:99', 'dev', 'eth0', 'nud', 'stale']
    lab.in(lab.client, 'ip', 'neighbour', 'replace', ...entry)
    await pair.attach(pair.a)
    const neighbour = (): string => lab.in(lab.client, 'ip', 'neighbour', 'show', proxied)
    const [, mac = 'no MAC'] = /link\/ether (\S+)/.exec(lab.in(lab.host, 'ip', 'link', 'show', 'up0')) ?? []
    await waitFor(() => neighbour().includes(mac), { what: () => `the announced MAC: ${neighbour()}` })
    expect(lab.in(lab.host, 'sysctl', '-n', 'net.ipv6.conf.up0.accept_ra').trim()).to.equal('2')
    expect(lab.in(pair.inA, 'ip', '-6', 'address', 'show', 'dev', 'eth0')).to.contain(`${proxied}/128`)
    await waitFor(() => lab.ask(lab.client, `tcp:${proxied}:22`))
    expect(lab.answer(lab.client, `tcp:${proxied}:22`)).to.equal(`bt11 ${clientAddress6}`)
    expect(lab.answer(pair.inA, `tcp:${clientAddress6}:80`)).to.equal(`client ${proxied}`)
  })

  it('keeps the detected prefix if a change that omits it is rejected', async () => {
    expect(await failure(pair.routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64)] }))).to.contain(proxied)
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
    expect(await pair.ipv6Status()).to.include({
      mode: 'proxied',
      reason: 'guests get IPv6 addresses from the prefix that was found on the interface up0',
    })
  })

  it('works with an additional prefix that is routed to the host', async () => {
    await pair.routing({
      ipv6Prefixes: [prefixItem('2001:db8:77::', 64), prefixItem('2001:db8:51::a:0', 112)],
    })
    const prefixes = (await pair.readRouting()).ipv6Prefixes.map(({ prefix }) => prefix)
    expect(prefixes).to.deep.equal(['2001:db8:51::a:0', '2001:db8:77::'])
    pair.b = { ...pair.b, ipv6Addresses: [routed] }
    await pair.attach(pair.b)
    await waitFor(() => lab.ask(lab.client, `tcp:${routed}:22`), { what: 'the routed address to answer' })
    expect(lab.answer(lab.client, `tcp:${routed}:22`)).to.equal(`bt12 ${clientAddress6}`)
    expect(lab.answer(pair.inB, `tcp:${clientAddress6}:80`)).to.equal(`client ${routed}`)
    expect(pair.show('-6', 'neigh', 'show', 'proxy'))
      .to.contain(proxied)
      .and.not.contain(routed)
  })

  it('lets guests reach each other through the host', () => {
    expect(lab.answer(pair.inA, `tcp:${routed}:22`)).to.equal(`bt12 ${proxied}`)
    expect(lab.answer(pair.inB, `tcp:${proxied}:22`)).to.equal(`bt11 ${routed}`)
  })

  for (const [prefix, prefixLen, client] of [
    ['2001:db8:100::', 48, '2001:db8:100::'],
    ['2001:db8:51:0:b::', 80, ''],
    ['2001:db8:51::c0', 124, ''],
  ] as const)
    it(`works with a /${prefixLen} prefix that is ${client === '' ? 'on-link' : 'routed to the host'}`, async () => {
      if (client) lab.in(lab.client, 'ip', 'route', 'add', `${prefix}/${prefixLen}`, 'via', hostAddress6)
      const kept = [prefixItem('2001:db8:77::', 64), prefixItem('2001:db8:51::a:0', 112)]
      await pair.routing({ ipv6Prefixes: [prefixItem(prefix, prefixLen), ...kept] })
      const order = { ipv4Count: 0, publicIpv4s: [], ipv6Count: 1, ipv6Addresses: [] }
      const { ipv6Addresses } = (await pair.book.call('choose', order)) as { ipv6Addresses: string[] }
      const before = pair.b
      await pair.attach({ ...pair.b, ipv6Addresses: [...pair.b.ipv6Addresses, ...ipv6Addresses] })
      const ask = (): string => lab.ask(lab.client, `tcp:${ipv6Addresses[0]}:22`)
      await waitFor(() => ask() === `bt12 ${clientAddress6}`, { what: `${ipv6Addresses[0]} to answer` })
      await pair.attach(before)
      expect(lab.in(pair.inB, 'ip', '-6', 'address', 'show')).to.not.contain(ipv6Addresses[0])
      expect(pair.show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(ipv6Addresses[0])
      await pair.routing({ ipv6Prefixes: kept })
    })

  it('is repaired if routes, neighbour entries, addresses and kernel settings are changed', async () => {
    expect(await pair.repairs()).to.deep.equal([])
    pair.show('-6', 'neigh', 'delete', 'proxy', proxied, 'dev', 'up0')
    pair.show('-6', 'route', 'delete', `${routed}/128`, 'dev', 'berth0')
    pair.show('-6', 'neigh', 'replace', proxied, 'lladdr', pair.b.mac, 'dev', 'berth0', 'nud', 'permanent')
    pair.show('address', 'delete', 'fe80::1/64', 'dev', 'berth0')
    lab.in(lab.host, 'sysctl', '-qw', 'net.ipv6.conf.up0.proxy_ndp=0', 'net.ipv6.conf.all.forwarding=0')
    expect(await pair.repairs()).to.have.length(6)
    expect(await pair.repairs()).to.deep.equal([])
    await waitFor(() => lab.ask(lab.client, `tcp:${proxied}:22`))
    await waitFor(() => lab.ask(lab.client, `tcp:${routed}:22`))
  })

  it('prevents the removal of prefixes that contain assigned addresses', async () => {
    expect(await failure(pair.routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64)] }))).to.contain(proxied)
    expect(await failure(pair.routing({ ipv6Prefixes: [] }))).to.contain('is assigned to a container')
    const { ipv6Assignments } = await pair.readRouting()
    expect(ipv6Assignments.map(({ address, prefixLen }) => [address, prefixLen])).to.deep.equal([
      [proxied, 112],
      [routed, 64],
    ])
  })

  it('keeps working if a change of prefixes fails for another guest and is rolled back', async () => {
    const failing = { ...lab.guest(14), mac: 'none', ipv6Addresses: ['2001:db8:77::14'] }
    pair.show('link', 'add', 'up1', 'type', 'veth', 'peer', 'name', 'up2')
    await pair.book.call('store', failing)
    await pair.attach(pair.a) // puts guest A after `failing` in the order in which guests are changed
    const moved = { ...prefixItem('2001:db8:51::a:0', 112), interface: 'up1' }
    expect(await failure(pair.routing({ ipv6Prefixes: [prefixItem('2001:db8:77::', 64), moved] }))).to.contain('none')
    const { ipv6Prefixes } = await pair.readRouting()
    expect(ipv6Prefixes.map((one) => one.interface)).to.deep.equal(['up0', 'up0'])
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.contain(`${proxied} dev up0`)
    expect(lab.answer(lab.client, `tcp:${proxied}:22`)).to.equal(`bt11 ${clientAddress6}`)
    await pair.book.call('remove', failing.uuid)
    pair.show('link', 'delete', 'up1')
    await pair.repairs()
    expect(await pair.repairs()).to.deep.equal([])
  })

  it('is removed from the host together with the guest', async () => {
    await pair.book.call('detach', pair.a)
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.equal('')
    expect(pair.show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(proxied)
    expect(pair.show('-6', 'neigh', 'show', 'dev', 'berth0')).to.not.contain(proxied)
    await pair.attach(pair.a)
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
  })

  it('is removed from the host together with the guest, even if neighbour entries are already missing', async () => {
    pair.show('-6', 'neigh', 'delete', 'proxy', proxied, 'dev', 'up0')
    pair.show('-6', 'neigh', 'delete', proxied, 'dev', 'berth0')
    await pair.book.call('detach', pair.a)
    expect(pair.show('-6', 'route', 'show', 'dev', 'berth0')).to.not.contain(proxied)
    await pair.attach(pair.a)
    expect(pair.show('-6', 'neigh', 'show', 'proxy')).to.contain(proxied)
  })

  it('has a status that names a configured interface which does not exist', async () => {
    const before = await pair.routing({})
    pair.show('link', 'add', 'gone0', 'type', 'bridge')
    const prefix = { interface: 'gone0', address: '', gateway: '', prefix: '2001:db8:99::', prefixLen: 48 }
    // Keeps the earlier prefixes, because guests have addresses in them.
    await pair.routing({ ipv6Prefixes: [...before.ipv6Prefixes, prefix] })
    const reason = 'IPv6 prefixes are configured for gone0, which does not exist'
    expect((await pair.ipv6Status()).reason).to.not.contain(reason)
    pair.show('link', 'delete', 'gone0')
    expect(await pair.ipv6Status()).to.include({ available: true, reason })
    expect(await pair.book.call('warnings')).to.include(reason)
    const order = { ipv4Count: 0, publicIpv4s: [], ipv6Count: 0, ipv6Addresses: ['2001:db8:99::9'] }
    expect(await failure(pair.book.call('choose', order))).to.contain('is not in a prefix')
    await pair.routing({ ipv6Prefixes: before.ipv6Prefixes })
  })

  it('has a status that names a router without response, or a missing default route', async () => {
    lab.in(lab.client, 'ip', '-6', 'address', 'delete', `${clientAddress6}/64`, 'dev', 'eth0')
    expect(await pair.ipv6Status()).to.include({ available: true, reachable: false })
    expect((await pair.ipv6Status()).reason).to.equal(`the router ${clientAddress6} on up0 does not answer`)
    pair.show('-6', 'route', 'delete', 'default')
    expect((await pair.ipv6Status()).reason).to.equal('the host has no IPv6 default route')
    expect(await pair.ipv6Status()).to.include({ available: true, reachable: false, mode: 'proxied' })
  })
})
