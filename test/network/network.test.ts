import { expect } from 'chai'
import { clientAddress, hostAddress, NetworkLab } from '../support/network/network-lab.js'
import { gateway, NetworkPair, tcp } from '../support/network/network-pair.js'

/* Tests who reaches whom among guests, host and clients, with real packets and tables in network namespaces. */

describe('the network of guests', function () {
  const pair = new NetworkPair('btestnet')
  const { lab, a, b, all, inA, inB } = pair

  before(async () => {
    await pair.open()
    const foreign = 'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter'
    lab.in(lab.host, 'nft', foreign)
  })
  after(() => lab.remove())

  describe('with one agent', () => {
    it('serves a port mapping to a client, and shows the guest the real address of the client', () => {
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.answer(lab.client, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    })

    it('serves a port mapping to the host itself', () => {
      expect(lab.answer(lab.host, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${hostAddress}`)
      expect(lab.answer(lab.host, `tcp:${gateway}:20001`)).to.match(/^bt11 /)
    })

    // Tests both values of bridge-nf-call-iptables. The kernel's default is 1, and Docker and Kubernetes also set 1.
    for (const filtered of [0, 1])
      describe(`and bridge-nf-call-iptables = ${filtered}`, () => {
        before(() => setBridgeFilter(filtered))

        it('serves a port mapping to other guests, and shows the mapped guest their real addresses', () => {
          expect(lab.answer(inB, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.answer(inB, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.answer(inB, `tcp:${gateway}:20001`)).to.equal(`bt11 ${b.ipv4}`)
        })

        it('answers a guest only on mapped ports of the host', () => {
          const own = filtered ? '' : ' 20002'
          expect(lab.tool(inB, 'scan', b.ipv4, hostAddress)).to.equal(`20001${own}`)
          expect(lab.tool(inB, 'scan', b.ipv4, gateway)).to.equal(`20001${own}`)
          expect(lab.ask(inB, `udp:${gateway}:53`)).to.equal('')
          expect(lab.ask(inB, `udp:${hostAddress}:53`)).to.equal('')
        })

        it(`causes ${filtered === 1 ? 'a' : 'no'} warning that a guest cannot reach its own mapped ports`, async () => {
          lab.in(lab.host, 'nft', 'insert rule inet berth guest_to_host accept')
          await pair.agent.ensure(all)
          expect(String(await pair.agent.call('warnings')).includes('its own mapped ports')).to.equal(filtered === 1)
        })
      })

    it('serves a port mapping to the mapped guest itself', () => {
      setBridgeFilter(0)
      expect(lab.answer(inA, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${gateway}`)
      setBridgeFilter(1)
    })

    function setBridgeFilter(value: number): void {
      const names = ['iptables', 'ip6tables'].map((tool) => `net.bridge.bridge-nf-call-${tool}=${value}`)
      lab.in(lab.host, 'sysctl', '-qw', ...names)
    }

    it('does not let guests reach unmapped ports of other guests', () => {
      expect(lab.ask(inB, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.ask(inB, `udp:${a.ipv4}:53`)).to.equal('')
    })

    it('replaces the source address of guests’ packets by the address of the host', () => {
      expect(lab.answer(inA, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
      expect(lab.answer(inA, `udp:${clientAddress}:53`)).to.equal(`client ${hostAddress}`)
    })

    it('drops packets that a client routes to a guest’s private address', () => {
      lab.in(lab.client, 'ip', 'route', 'replace', '10.77.0.0/24', 'via', hostAddress)
      expect(lab.ask(lab.client, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.answer(lab.host, `tcp:${a.ipv4}:22`)).to.equal(`bt11 ${gateway}`)
    })

    it('does not prevent clients from reaching programs of the host', () => {
      expect(lab.answer(lab.client, `tcp:${hostAddress}:8080`)).to.equal(`host ${clientAddress}`)
    })

    it('answers pings of a guest only at the gateway address', () => {
      const ping = (address: string): boolean => {
        try {
          lab.in(inA, 'ping', '-c1', '-W1', address)
          return true
        } catch {
          return false
        }
      }
      expect(ping(gateway)).to.equal(true)
      expect(ping(hostAddress)).to.equal(false)
      expect(ping(b.ipv4)).to.equal(false)
    })

    it('gives the bridge no IPv6 address if no guest has IPv6', () => {
      expect(lab.in(lab.host, 'ip', '-6', 'address', 'show', 'dev', 'berth0')).to.equal('')
    })
  })

  describe('with a second agent on the same host', () => {
    const second = new NetworkLab('btestnet', {
      bridge: 'berth1',
      table: 'berth_2',
      interface_prefix: 'bx',
      subnet: '10.78.0.0/24',
      nat_ports: { start: 30000, end: 39999, per_guest: 4000 },
    })
    const x = second.guest(11, [tcp(30001)])

    it('works for guests of both agents, and still works after the removal of the second agent', async () => {
      const other = second.agent()
      await other.ensure([x])
      second.plug(x)
      await second.serve(second.namespaceOf(x), x.device, 'tcp:22')
      expect(lab.answer(lab.client, `tcp:${hostAddress}:30001`)).to.equal(`bx11 ${clientAddress}`)
      expect(lab.answer(inB, `tcp:${hostAddress}:30001`)).to.match(/^bx11 /)
      expect(lab.answer(second.namespaceOf(x), `tcp:${hostAddress}:20001`)).to.match(/^bt11 /)
      expect(lab.ask(inB, `tcp:${x.ipv4}:22`)).to.equal('')
      expect(await pair.agent.ensure(all)).to.deep.equal([])
      expect(await other.ensure([x])).to.deep.equal([])
      await other.call('remove')
      expect(await pair.agent.ensure(all)).to.deep.equal([])
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
      await other.end()
    })
  })

  describe('after its removal', () => {
    it('leaves only tables and interfaces of other programs', async () => {
      await pair.agent.call('remove')
      expect(lab.in(lab.host, 'nft', 'list', 'tables').trim()).to.equal('table inet foreign')
      expect(lab.in(lab.host, 'ip', '-o', 'link')).to.not.include('berth0:')
      await pair.agent.end()
    })
  })
})
