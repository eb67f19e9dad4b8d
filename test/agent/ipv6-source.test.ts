import { expect } from 'chai'
import { AddressedHost, guestPrefix, hostAddress6, outside6 } from '../support/network/addressed-host.js'
import { changeSetting, wireMapping } from '../support/host/agent-calls.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

/* Tests with a real guest and real packets which of its IPv6 addresses the guest uses as source address. */

describe('a guest whose first IPv6 address is not closest to its clients (RFC 6724)', function () {
  const host = new AddressedHost()
  const [farPrefix, first] = ['2001:db8:6::', '2001:db8:6::5']
  const nearer = [`${guestPrefix}5`, `${guestPrefix}6`]
  let uuid: string
  let given: string

  before(async () => {
    await host.open()
    host.segment.ip('route', 'add', `${farPrefix}/64`, 'via', hostAddress6)
    await host.setRouting({ ipv6Prefixes: { items: [guestPrefix, farPrefix].map(host.prefixItem) } })
    const mapping = wireMapping({ protocol: 'udp', hostIp: hostAddress6, containerPort: 8081 })
    uuid = await host.create({ assignNat: true, portMappings: [mapping], ipv6Addresses: [first] })
  })
  after(() => host.destroy())

  async function inside(...args: string[]): Promise<string> {
    return sh('nsenter', `--net=/proc/${await host.pidOf(uuid)}/ns/net`, 'ip', '-6', '-oneline', ...args)
  }

  /** The guest's addresses in the kernel's order, with flags and lifetimes, and its default route. */
  async function readNetwork(): Promise<string> {
    const addresses = await inside('address', 'show', 'dev', 'eth0', 'scope', 'global')
    return addresses.replaceAll(/^\d+: /gm, '') + (await inside('route', 'show', 'default'))
  }

  /** Expects that a server in the guest answers. The guest's kernel chooses the source address of its answers. */
  async function expectAnswers(name: string): Promise<void> {
    await host.serve(uuid, name)
    const { hostPort } = (await host.guest(uuid)).portMappings[0]!
    expect(host.answer(undefined, 'udp', hostAddress6, `${hostPort}`)).to.equal(`${name} ${outside6}`)
    for (const address of [first, ...nearer])
      expect(host.answer(undefined, 'tcp', address, '8081')).to.equal(`${name} ${outside6}`)
    expect(await inside('route', 'get', outside6)).to.contain(` src ${first} `)
  }

  it('uses its first address as source address, even for port mappings', async () => {
    const value = { count: 0, addresses: nearer }
    await changeSetting(host.settings, { $case: 'assignIpv6', value }, { uuid })
    given = await readNetwork()
    expect(given.match(/deprecated/g)).to.have.length(2)
    await expectAnswers('given')
  })

  it('has the same addresses and the same source address after a restart', async () => {
    await host.power('restart', uuid)
    expect(await readNetwork()).to.equal(given)
    await expectAnswers('restarted')
  })

  it('has the same addresses and the same source address after a reboot from inside', async () => {
    const before = await host.pidOf(uuid)
    process.kill(Number(before), 'SIGTERM') // BusyBox's init reboots the guest
    await waitFor(async () => ![before, ''].includes(await host.pidOf(uuid)))
    expect(await readNetwork()).to.equal(given)
    await expectAnswers('rebooted')
  })
})
