import { expect } from 'chai'
import { AddressedPair, failure, poolItem, prefixItem } from '../support/network/addressed-pair.js'
import { clientAddress, clientAddress6, hostAddress6 } from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* In these tests, another program adds an interface with a network and a default route, after a prefix was detected. */

describe('a detected IPv6 prefix', function () {
  const pair = new AddressedPair('btestfnd')
  const { lab } = pair
  const own = '2001:db8:51::a:1'

  before(async () => {
    await pair.open()
    // Gives the default route the metric 100, as DHCP clients do. Routes with a lower metric then take precedence.
    pair.show('route', 'replace', 'default', 'via', clientAddress, 'metric', '100')
    pair.show('route', 'delete', 'default', 'metric', '0')
  })
  after(() => lab.remove())

  /** Creates a veth as another program could. Its default route has priority over the default route of the uplink. */
  function makeStranger(): void {
    pair.show('link', 'add', 'veth9', 'type', 'veth', 'peer', 'name', 'veth8')
    for (const device of ['veth9', 'veth8']) pair.show('link', 'set', device, 'up')
    pair.show('address', 'add', '2001:db8:bad::1/64', 'dev', 'veth9', 'nodad')
    pair.show('address', 'add', '198.51.101.1/24', 'dev', 'veth9')
    pair.show('-6', 'route', 'add', 'default', 'via', '2001:db8:bad::2', 'dev', 'veth9', 'metric', '1')
    pair.show('route', 'add', 'default', 'via', '198.51.101.2', 'dev', 'veth9', 'metric', '1')
  }
  const choose = async (ipv6Addresses: string[] = []): Promise<string[]> => {
    const order = {
      ipv4Count: 0,
      publicIpv4s: [],
      ipv6Count: ipv6Addresses.length === 0 ? 1 : 0,
      ipv6Addresses,
    }
    const chosen = (await pair.book.call('choose', order)) as { ipv6Addresses: string[] }
    return chosen.ipv6Addresses
  }
  const warnings = async (): Promise<string[]> => (await pair.book.call('warnings')) as string[]

  it('is kept if another program’s interface has a prefix, even while no guest uses the detected prefix', async () => {
    makeStranger()
    expect((await pair.ipv6Status()).reason).to.contain(
      'guests get IPv6 addresses from the prefix that was found on the interface up0',
    )
    expect((await choose())[0]).to.match(/^2001:db8:51:/)
    pair.show('link', 'delete', 'veth9')
  })

  it('stays in use, with a warning, if the default route moves to another interface', async () => {
    pair.a = { ...pair.a, ipv6Addresses: await choose([own]) }
    await pair.attach(pair.a)
    await waitFor(() => lab.ask(lab.client, `tcp:${own}:22`) === `bt11 ${clientAddress6}`)
    expect(await warnings()).to.deep.equal([])
    makeStranger()
    expect((await pair.readRouting()).ipv6Prefixes.map(({ prefix }) => prefix)).to.deep.equal(['2001:db8:51::'])
    expect((await choose())[0]).to.match(/^2001:db8:51:/)
    expect(await pair.repairs()).to.deep.equal([])
    expect(lab.answer(lab.client, `tcp:${own}:22`)).to.equal(`bt11 ${clientAddress6}`)
    expect((await warnings()).join()).to.match(
      /2001:db8:51::\/64 of up0, but the default route of the host uses veth9 now/,
    )
  })

  it('makes its uplink the default interface for addresses of the IPv4 pool', async () => {
    const { interface: device } = (await pair.routing({ ipv4Pool: [{ ...poolItem('198.51.101.9'), interface: '' }] }))
      .ipv4Pool[0]!
    expect(device).to.equal('up0')
    await pair.routing({ ipv4Pool: [] })
  })

  it('can be extended by an administrator, but not removed while a guest uses it', async () => {
    // The agent detects no prefixes on veth interfaces, but an administrator may configure one there.
    const more = { ...prefixItem('2001:db8:bad::', 64), interface: 'veth9' }
    expect(await failure(pair.routing({ ipv6Prefixes: [more] }))).to.contain(own)
    await pair.routing({ ipv6Prefixes: [more, prefixItem('2001:db8:51::', 64)] })
    expect(await choose(['2001:db8:bad::7'])).to.deep.equal(['2001:db8:bad::7'])
    await pair.routing({ ipv6Prefixes: [] })
    expect((await pair.readRouting()).ipv6Prefixes.map(({ prefix }) => prefix)).to.deep.equal(['2001:db8:51::'])
    pair.show('link', 'delete', 'veth9')
  })

  it('causes a warning if it disappears, and new addresses are from another prefix of the uplink', async () => {
    pair.show('address', 'delete', `${hostAddress6}/64`, 'dev', 'up0')
    pair.show('address', 'add', '2001:db8:52::1/64', 'dev', 'up0', 'nodad')
    pair.show('-6', 'route', 'replace', 'default', 'via', 'fe80::1', 'dev', 'up0')
    const { ipv6Prefixes } = await pair.readRouting()
    expect(ipv6Prefixes.map(({ prefix }) => prefix)).to.deep.equal(['2001:db8:52::', '2001:db8:51::'])
    expect((await choose())[0]).to.match(/^2001:db8:52:/)
    expect((await warnings()).join()).to.match(
      /2001:db8:51::\/64 of up0, from which guests have addresses, no longer exists,new addresses are taken from .*2001:db8:52::/,
    )
    await pair.book.call('detach', pair.a)
    await pair.book.call('remove', pair.a.uuid)
    expect(await warnings()).to.deep.equal([])
  })
})
