import { expect } from 'chai'
import type { Ipv6Status } from '../../agent/network/addresses/routing.js'
import { openAddressBook, runGuest } from '../support/network/address-book.js'
import {
  clientAddress6,
  hostAddress,
  hostAddress6,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'

/* In these tests, the host has one IPv6 address and no prefix, as with many providers. Its guests share the address. */

describe('NAT66 (guests with private IPv6 addresses)', function () {
  const lab = new NetworkLab('btestn66')
  const mapping = {
    protocol: 'tcp',
    hostIp: '',
    hostPort: 20022,
    hostPortEnd: 20022,
    containerPort: 22,
  } as const
  let guest = lab.guest(11, [mapping])
  const inside = lab.namespaceOf(guest)
  let network: AgentNetwork
  let book: AgentNetwork

  before(async () => {
    lab.build()
    const ip = (...args: string[]): string => lab.in(lab.host, 'ip', '-6', ...args)
    ip('address', 'delete', `${hostAddress6}/64`, 'dev', 'up0')
    ip('address', 'add', `${hostAddress6}/128`, 'dev', 'up0', 'nodad')
    ip('route', 'add', `${clientAddress6}/128`, 'dev', 'up0')
    ip('route', 'replace', 'default', 'via', clientAddress6, 'dev', 'up0')
    network = lab.agent()
    await network.ensure([guest])
    book = openAddressBook(lab)
    await runGuest(lab, book, guest)
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
  })

  after(() => lab.remove())

  it('is the reported mode of IPv6 if the host has an IPv6 address but no prefix for guests', async () => {
    const { prefixes, ...status } = (await book.call('status')) as Ipv6Status
    expect(status).to.deep.equal({
      available: true,
      reachable: true,
      reason: 'the host has an IPv6 address but no prefix for guests: the guests share the address through NAT66',
      mode: 'nat66',
    })
    expect(prefixes.map(({ prefix, prefixLen }) => `${prefix}/${prefixLen}`)).to.deep.equal([lab.config.subnet6])
  })

  it('replaces the source address of a guest’s packets by the address of the host', async () => {
    const order = { ipv4Count: 0, publicIpv4s: [], ipv6Count: 1, ipv6Addresses: [] }
    const { ipv6Addresses } = (await book.call('choose', order)) as { ipv6Addresses: string[] }
    expect(ipv6Addresses[0]).to.match(/^fd77::/)
    guest = { ...guest, ipv6Addresses }
    await network.call('attach', guest)
    await book.call('attach', guest)
    await waitFor(() => lab.ask(inside, `tcp:${clientAddress6}:80`), { what: 'the way out' })
    expect(lab.answer(inside, `tcp:${clientAddress6}:80`)).to.equal(`client ${hostAddress6}`)
    expect(lab.answer(inside, `udp:${clientAddress6}:53`)).to.equal(`client ${hostAddress6}`)
  })

  it('serves port mappings at the host’s IPv4 and IPv6 address, and shows the client’s real address', () => {
    expect(lab.answer(lab.client, `tcp:${hostAddress6}:20022`)).to.equal(`bt11 ${clientAddress6}`)
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20022`)).to.match(/^bt11 /)
  })

  it('drops packets from outside to the private address of a guest', () => {
    lab.in(lab.client, 'ip', 'route', 'add', lab.config.subnet6, 'via', hostAddress6)
    expect(lab.ask(lab.client, `tcp:${guest.ipv6Addresses[0]}:22`, { timeoutSeconds: 0.5 })).to.equal('')
  })
})
