import { mkdtempSync, rmSync } from 'node:fs'
import { expect } from 'chai'
import { AddressedPair, prefixItem } from '../support/network/addressed-pair.js'
import { readForwarding } from '../support/host/inventory.js'

/* Tests which settings of the host change for guests with IPv6, and that they are restored afterwards. */

describe('IPv6 forwarding on the host', function () {
  const stateDir = mkdtempSync('/tmp/btest-left-')
  const pair = new AddressedPair('btestleft', stateDir)
  const { lab } = pair
  const [proxied, routed] = ['2001:db8:51::a:1', '2001:db8:77::7']
  let found: string[]

  const settings = (): string[] => readForwarding({ namespace: lab.host }, lab.config.bridge)
  const give = (ipv6Addresses: string[]): Promise<void> => pair.attach((pair.a = { ...pair.a, ipv6Addresses }))
  async function deleteGuest(): Promise<void> {
    await pair.book.call('remove', pair.a.uuid)
    await pair.book.call('detach', pair.a)
    await pair.repairs()
  }

  before(async () => {
    await pair.open()
    // These are the settings of a host that does not forward IPv6 and learns its routes from a router.
    lab.in(lab.host, 'sysctl', '-qw', 'net.ipv6.conf.all.forwarding=0', 'net.ipv6.conf.up0.accept_ra=1')
    found = settings()
    await pair.routing({
      ipv6Prefixes: [prefixItem('2001:db8:77::', 64), prefixItem('2001:db8:51::a:0', 112)],
    })
  })
  after(() => {
    lab.remove()
    rmSync(stateDir, { recursive: true, force: true })
  })

  it('is disabled again when the last guest with IPv6 is deleted', async () => {
    await give([proxied])
    expect(settings()).to.include.members([
      'net.ipv6.conf.all.forwarding = 1',
      'net.ipv6.conf.up0.accept_ra = 2',
      'net.ipv6.conf.up0.proxy_ndp = 1',
    ])
    await pair.repairs()
    await deleteGuest()
    expect(settings()).to.deep.equal(found)
  })

  it('stays enabled while a guest has an IPv6 address, but an unused proxy_ndp is reset', async () => {
    await give([proxied, routed])
    await pair.repairs()
    await give([routed])
    await pair.repairs()
    expect(settings()).to.include.members([
      'net.ipv6.conf.all.forwarding = 1',
      'net.ipv6.conf.up0.accept_ra = 2',
      'net.ipv6.conf.up0.proxy_ndp = 0',
    ])
    expect(await pair.repairs()).to.deep.equal([])
  })

  it('is disabled again by a purge', async () => {
    await give([proxied])
    await pair.book.call('purge')
    expect(settings()).to.deep.equal(found)
  })
})
