import { expect } from 'chai'
import { clientAddress, hostAddress, NetworkLab } from '../support/network/network-lab.js'
import { gateway, NetworkPair, tcp } from '../support/network/network-pair.js'

/* Reachability between guests, host and clients: real packets through real tables, in separate network namespaces. */

describe('network', function () {
  const pair = new NetworkPair('btestnet')
  const { lab, a, b, all, inA, inB } = pair

  before(async () => {
    await pair.open()
    const foreign = 'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter'
    lab.in(lab.host, 'nft', foreign)
  })
  after(() => lab.remove())

  describe('and its reachability', () => {
    it('serves a mapping to a client, whose address the guest sees', () => {
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    })

    it('serves a mapping to the host itself', () => {
      expect(lab.ask(lab.host, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${hostAddress}`)
      expect(lab.ask(lab.host, `tcp:${gateway}:20001`)).to.match(/^bt11 /)
    })

    // 1 is the kernel's default, and set by Docker and Kubernetes.
    for (const filtered of [0, 1])
      describe(`bridge-nf-call-iptables ${filtered}`, () => {
        before(() => setBridgeFilter(filtered))

        it('serves a mapping to other guests, whose address the guest sees', () => {
          expect(lab.ask(inB, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.ask(inB, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.ask(inB, `tcp:${gateway}:20001`)).to.equal(`bt11 ${b.ipv4}`)
        })

        it('answers a guest only on mapped ports of the host', () => {
          const own = filtered ? '' : ' 20002'
          expect(lab.tool(inB, 'scan', b.ipv4, hostAddress)).to.equal(`20001${own}`)
          expect(lab.tool(inB, 'scan', b.ipv4, gateway)).to.equal(`20001${own}`)
          expect(lab.ask(inB, `udp:${gateway}:53`)).to.equal('')
          expect(lab.ask(inB, `udp:${hostAddress}:53`)).to.equal('')
        })

        it('reports broken reachability', async () => {
          lab.in(lab.host, 'nft', 'insert rule inet berth guest_to_host accept')
          await pair.agent.ensure(all)
          expect(String(await pair.agent.call('warnings')).includes('its own mapped ports')).to.equal(filtered === 1)
        })
      })

    it('serves a mapping to the guest itself', () => {
      setBridgeFilter(0)
      expect(lab.ask(inA, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${gateway}`)
      setBridgeFilter(1)
    })

    function setBridgeFilter(value: number): void {
      const names = ['iptables', 'ip6tables'].map((tool) => `net.bridge.bridge-nf-call-${tool}=${value}`)
      lab.in(lab.host, 'sysctl', '-qw', ...names)
    }

    it('does not let guests reach other guests past the mappings', () => {
      expect(lab.ask(inB, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.ask(inB, `udp:${a.ipv4}:53`)).to.equal('')
    })

    it('lets guests out with the host’s source', () => {
      expect(lab.ask(inA, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
      expect(lab.ask(inA, `udp:${clientAddress}:53`)).to.equal(`client ${hostAddress}`)
    })

    it('rejects clients that route to a guest past the mappings', () => {
      lab.in(lab.client, 'ip', 'route', 'replace', '10.77.0.0/24', 'via', hostAddress)
      expect(lab.ask(lab.client, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.ask(lab.host, `tcp:${a.ipv4}:22`)).to.equal(`bt11 ${gateway}`)
    })

    it('leaves programs of the host reachable for clients', () => {
      expect(lab.ask(lab.client, `tcp:${hostAddress}:8080`)).to.equal(`host ${clientAddress}`)
    })

    it('answers the ping of a guest only at the gateway address', () => {
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

    it('gives the bridge no IPv6 address', () => {
      expect(lab.in(lab.host, 'ip', '-6', 'address', 'show', 'dev', 'berth0')).to.equal('')
    })
  })

  describe('a second agent on the host', () => {
    const second = new NetworkLab('btestnet', {
      bridge: 'berth1',
      table: 'berth_2',
      interface_prefix: 'bx',
      subnet: '10.78.0.0/24',
      nat_ports: { start: 30000, end: 39999, per_guest: 4000 },
    })
    const x = second.guest(11, [tcp(30001)])

    it('works next to the first', async () => {
      const other = second.agent()
      await other.ensure([x])
      second.plug(x)
      await second.serve(second.namespaceOf(x), x.device, 'tcp:22')
      expect(lab.ask(lab.client, `tcp:${hostAddress}:30001`)).to.equal(`bx11 ${clientAddress}`)
      expect(lab.ask(inB, `tcp:${hostAddress}:30001`)).to.match(/^bx11 /)
      expect(lab.ask(second.namespaceOf(x), `tcp:${hostAddress}:20001`)).to.match(/^bt11 /)
      expect(lab.ask(inB, `tcp:${x.ipv4}:22`)).to.equal('')
      expect(await pair.agent.ensure(all)).to.deep.equal([])
      expect(await other.ensure([x])).to.deep.equal([])
      await other.call('remove')
      expect(await pair.agent.ensure(all)).to.deep.equal([])
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
      await other.end()
    })
  })

  describe('removal', () => {
    it('deletes its own objects and no others', async () => {
      await pair.agent.call('remove')
      expect(lab.in(lab.host, 'nft', 'list', 'tables').trim()).to.equal('table inet foreign')
      expect(lab.in(lab.host, 'ip', '-o', 'link')).to.not.include('berth0:')
      await pair.agent.end()
    })
  })
})
