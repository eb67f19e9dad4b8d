import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { findProcess, readChildren } from '../../agent/host/proc.js'
import type { GuestNetwork, NatMapping } from '../../agent/network/contract.js'
import { macOf } from '../../agent/network/subnet.js'
import { arpFrame, ipv4Frame, rawFrame, tagged } from '../support/frames.js'
import { clientAddress, hostAddress, NetworkLab, type AgentNetwork } from '../support/network-lab.js'
import { waitFor } from '../support/wait.js'

/* Real packets through real tables, in network namespaces of its own. */

const gateway = '10.77.0.1'
const tcp = (hostPort: number, containerPort = 22): NatMapping => ({
  protocol: 'tcp',
  hostIp: '',
  hostPort,
  hostPortEnd: hostPort,
  containerPort,
})
const udp = (hostPort: number, containerPort = 53): NatMapping => ({
  ...tcp(hostPort, containerPort),
  protocol: 'udp',
})

const deleteAgain = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do conntrack -D "$0" "$1"; done'

describe('network', function () {
  this.timeout(60_000)
  const lab = new NetworkLab('btestnet')
  const a = lab.guest(11, [tcp(20001), udp(20001)])
  const b = lab.guest(12, [tcp(20002)])
  const all = [a, b]
  const [inA, inB] = all.map((guest) => lab.namespaceOf(guest)) as [string, string]
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    lab.in(
      lab.host,
      'nft',
      'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter',
    )
    agent = lab.agent()
    await agent.ensure(all)
    for (const guest of all) {
      await agent.call('attach', guest)
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22', 'udp:53')
    }
    await lab.serve(lab.client, 'client', 'tcp:80', 'udp:53')
    // Programs of the host, on all its addresses.
    await lab.serve(lab.host, 'host', 'tcp:22', 'tcp:7443', 'tcp:8080', 'udp:53')
    await waitFor(() => lab.ask(inA, `tcp:${clientAddress}:80`), { what: 'the way out' })
  })

  after(() => lab.remove())

  describe('what is reachable', () => {
    it('serves a mapping to a client, whose address the guest sees', () => {
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    })

    it('serves a mapping to the host itself', () => {
      expect(lab.ask(lab.host, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${hostAddress}`)
      expect(lab.ask(lab.host, `tcp:${gateway}:20001`)).to.match(/^bt11 /)
    })

    // 1 is what the kernel begins with, and what Docker and Kubernetes set.
    for (const filtered of [0, 1])
      describe(`bridge-nf-call-iptables ${filtered}`, () => {
        before(() => setBridgeFilter(filtered))

        it('serves a mapping to other guests, whose address the guest sees', () => {
          expect(lab.ask(inB, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.ask(inB, `udp:${hostAddress}:20001`)).to.equal(`bt11 ${b.ipv4}`)
          expect(lab.ask(inB, `tcp:${gateway}:20001`)).to.equal(`bt11 ${b.ipv4}`)
        })

        it('answers a guest on no port of the host but mapped ones', () => {
          const own = filtered ? '' : ' 20002'
          expect(lab.tool(inB, 'scan', b.ipv4, hostAddress)).to.equal(`20001${own}`)
          expect(lab.tool(inB, 'scan', b.ipv4, gateway)).to.equal(`20001${own}`)
          expect(lab.ask(inB, `udp:${gateway}:53`)).to.equal('')
          expect(lab.ask(inB, `udp:${hostAddress}:53`)).to.equal('')
        })

        it('says what does not work', async () => {
          lab.in(lab.host, 'nft', 'insert rule inet berth guest_to_host accept')
          await agent.ensure(all)
          expect(String(await agent.call('warnings')).includes('its own mapped ports')).to.equal(
            filtered === 1,
          )
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

    it('lets guests reach no other guest past the mappings', () => {
      expect(lab.ask(inB, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.ask(inB, `udp:${a.ipv4}:53`)).to.equal('')
    })

    it('lets guests out in the name of the host', () => {
      expect(lab.ask(inA, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
      expect(lab.ask(inA, `udp:${clientAddress}:53`)).to.equal(`client ${hostAddress}`)
    })

    it('serves nothing to those who route to a guest past the mappings', () => {
      lab.in(lab.client, 'ip', 'route', 'replace', '10.77.0.0/24', 'via', hostAddress)
      expect(lab.ask(lab.client, `tcp:${a.ipv4}:22`)).to.equal('')
      expect(lab.ask(lab.host, `tcp:${a.ipv4}:22`)).to.equal(`bt11 ${gateway}`)
    })

    it('keeps programs of the host reachable for others', () => {
      expect(lab.ask(lab.client, `tcp:${hostAddress}:8080`)).to.equal(`host ${clientAddress}`)
    })

    it('answers the ping of a guest at the gateway address only', () => {
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

  describe('what a guest sends in the name of others', () => {
    const bridgeMac = macOf(gateway)
    const toHost = { from: a.mac, to: bridgeMac }
    const own = { from: a.ipv4, to: gateway }
    const strange = '02:be:00:00:00:99'
    const frames: Record<string, string> = {
      'another mac': ipv4Frame({ from: strange, to: bridgeMac }, own, 'mac'),
      "another guest's mac": ipv4Frame({ from: b.mac, to: bridgeMac }, own, 'mac-b'),
      "the gateway's mac": ipv4Frame({ from: bridgeMac, to: b.mac }, own, 'mac-gw'),
      "another guest's address": ipv4Frame(toHost, { ...own, from: b.ipv4 }, 'ip-b'),
      "another guest's mac and address": ipv4Frame(
        { from: b.mac, to: bridgeMac },
        { ...own, from: b.ipv4 },
        'both-b',
      ),
      'an address out of the subnet': ipv4Frame(toHost, { ...own, from: '192.0.2.7' }, 'ip-out'),
      'no address': ipv4Frame(toHost, { ...own, from: '0.0.0.0' }, 'ip-0'),
      "a DHCP server's answer": ipv4Frame(
        { from: a.mac, to: 'ff:ff:ff:ff:ff:ff' },
        { from: a.ipv4, to: '255.255.255.255', sport: 67 },
        'dhcp',
      ),
      "ARP for the gateway's address": arpFrame(
        a.mac,
        { mac: a.mac, ipv4: gateway, target: b.ipv4, operation: 2 },
        'arp-gw',
      ),
      "ARP for another guest's address": arpFrame(
        a.mac,
        { mac: a.mac, ipv4: b.ipv4, target: gateway },
        'arp-b',
      ),
      'ARP with another mac inside': arpFrame(
        a.mac,
        { mac: strange, ipv4: a.ipv4, target: gateway },
        'arp-sha',
      ),
      'ARP in a frame of another mac': arpFrame(
        strange,
        { mac: a.mac, ipv4: a.ipv4, target: gateway },
        'arp-eth',
      ),
      'ARP of an unknown operation': arpFrame(
        a.mac,
        { mac: a.mac, ipv4: a.ipv4, target: gateway, operation: 3 },
        'arp-op',
      ),
      IPv6: rawFrame(toHost, 0x86dd, 'ipv6', '6000000000003a40'),
      'a router advertisement': rawFrame(
        { from: a.mac, to: '33:33:00:00:00:01' },
        0x86dd,
        'ra',
        '6000000000003aff',
      ),
      'a VLAN tag': tagged(ipv4Frame(toHost, { ...own, from: b.ipv4 }, 'vlan')),
      'a VLAN tag on what would be right': tagged(ipv4Frame(toHost, own, 'vlan-own')),
      'two VLAN tags': tagged(tagged(ipv4Frame(toHost, own, 'qinq')), 0x88a8),
      'another ether type': rawFrame(toHost, 0x88b5, 'type'),
      "another guest's mac to the bridge group": rawFrame(
        { from: b.mac, to: '01:80:c2:00:00:0e' },
        0x88cc,
        'lldp',
      ),
      'something for another guest': ipv4Frame(
        { from: a.mac, to: b.mac },
        { from: a.ipv4, to: b.ipv4 },
        'to-b',
      ),
      'something for all': ipv4Frame(
        { from: a.mac, to: 'ff:ff:ff:ff:ff:ff' },
        { from: a.ipv4, to: '10.77.0.255' },
        'to-all',
      ),
    }
    /** Seen by the host but by no guest: the host is on the same segment. */
    const forHostOnly = new Set(['something for all'])
    let seenByHost: Set<string>
    let seenByB: Set<string>

    before(async () => {
      seenByHost = await lab.sniff(lab.host, 'berth0')
      seenByB = await lab.sniff(inB, 'eth0')
      lab.tool(inA, 'send', 'eth0', ...Object.values(frames))
      // What follows them and is right tells that all of them were handled.
      lab.tool(inA, 'send', 'eth0', ipv4Frame(toHost, own, 'right'))
      await waitFor(() => seenByHost.has('right'), { what: 'the frame that is right' })
      const toB = { from: bridgeMac, to: b.mac }
      lab.tool(lab.host, 'send', 'berth0', ipv4Frame(toB, { from: gateway, to: b.ipv4 }, 'from-host'))
      await waitFor(() => seenByB.has('from-host'), { what: "the host's frame" })
    })

    for (const [name, frame] of Object.entries(frames)) {
      const marker = /<<(.*)>>/.exec(Buffer.from(frame, 'hex').toString('latin1'))![1]!
      it(`${name}: is not delivered`, () => {
        if (!forHostOnly.has(name)) expect([...seenByHost]).to.not.include(marker)
        expect([...seenByB]).to.not.include(marker)
      })
    }

    it('does not move the way to another guest', () => {
      const learnt = lab.tool(lab.host, 'fdb', 'berth0').split('\n')
      const portOf = (device: string): number =>
        Number(lab.in(lab.host, 'cat', `/sys/class/net/${device}/brport/port_no`))
      const of = (mac: string): number[] =>
        learnt.filter((line) => line.startsWith(mac)).map((line) => Number(line.split(' ')[1]))
      expect(of(b.mac)).to.deep.equal([portOf(b.device)])
      expect(of(strange)).to.deep.equal([])
    })

    it('drops what is right once the guest is detached', async () => {
      const c = lab.guest(13)
      lab.plug(c)
      const inC = lab.namespaceOf(c)
      const fromC = (marker: string): string =>
        ipv4Frame({ from: c.mac, to: bridgeMac }, { from: c.ipv4, to: gateway }, marker)
      lab.tool(inC, 'send', 'eth0', fromC('before'))
      await agent.call('attach', c)
      await waitFor(() => (lab.tool(inC, 'send', 'eth0', fromC('during')), seenByHost.has('during')))
      await agent.call('detach', c)
      lab.tool(inC, 'send', 'eth0', fromC('after'))
      lab.tool(inA, 'send', 'eth0', ipv4Frame(toHost, own, 'last'))
      await waitFor(() => seenByHost.has('last'))
      expect([...seenByHost])
        .to.include('during')
        .and.not.include('before')
        .and.not.include('after')
      lab.unplug(c)
    })
  })

  describe('repair', () => {
    it('finds nothing to do on a converged host', async () => {
      expect(await agent.ensure(all)).to.deep.equal([])
    })

    it('rebuilds everything after a foreign flush', async () => {
      lab.in(lab.host, 'nft', 'flush', 'ruleset')
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal('')
      expect(await agent.ensure(all)).to.deep.equal(['nft tables made'])
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(inA, `tcp:${hostAddress}:8080`)).to.equal('')
      lab.in(
        lab.host,
        'nft',
        'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter',
      )
    })

    const damages: Record<string, { by: string; repairs: string[] }> = {
      'a rule added': { by: 'insert rule inet berth guest_to_host accept', repairs: ['nft tables rebuilt'] },
      'a chain flushed': { by: 'flush chain bridge berth from_guest', repairs: ['nft tables rebuilt'] },
      'a table deleted': { by: 'delete table ip berth', repairs: ['nft tables rebuilt'] },
      'a policy changed': {
        by: 'add chain inet berth forward { policy drop; }',
        repairs: ['nft tables rebuilt'],
      },
      'an element deleted': {
        by: 'delete element ip berth ports { tcp . 20001 }',
        repairs: ['1 nft elements added'],
      },
      'an element changed': {
        by: `delete element ip berth ports { tcp . 20001 }; add element ip berth ports { tcp . 20001 : ${b.ipv4} . 22 }`,
        repairs: ['1 nft elements removed', '1 nft elements added'],
      },
      'elements of nobody': {
        by: 'add element ip berth ports { udp . 29000 : 10.77.0.99 . 22 }; add element bridge berth guests { "bt99" . 02:be:00:00:00:99 . 10.77.0.99 }',
        repairs: ['2 nft elements removed'],
      },
    }
    for (const [name, { by, repairs }] of Object.entries(damages))
      it(`mends ${name}`, async () => {
        const before = lab.in(lab.host, 'nft', 'list', 'ruleset')
        lab.in(lab.host, 'nft', by)
        expect(await agent.ensure(all)).to.deep.equal(repairs)
        expect(await agent.ensure(all)).to.deep.equal([])
        expect(sorted(lab.in(lab.host, 'nft', 'list', 'ruleset'))).to.deep.equal(sorted(before))
      })

    it('mends the bridge and the settings of the kernel', async () => {
      lab.in(lab.host, 'ip', 'address', 'flush', 'dev', 'berth0')
      lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'address', '02:00:00:00:00:07')
      lab.in(lab.host, 'sysctl', '-qw', 'net.ipv4.conf.berth0.route_localnet=1', 'net.ipv4.ip_forward=0')
      expect(await agent.ensure(all)).to.include.members([
        'bridge berth0 mended',
        'net.ipv4.ip_forward: 0 → 1',
        'net.ipv4.conf.berth0.route_localnet: 1 → 0',
      ])
      expect(await agent.ensure(all)).to.deep.equal([])
      await waitFor(() => lab.ask(lab.client, `tcp:${hostAddress}:20001`))
    })

    it('keeps the mac of the bridge when guests come and go', () => {
      const low = { ...lab.guest(14), mac: '00:00:00:00:00:01' }
      lab.plug(low)
      expect(lab.in(lab.host, 'cat', '/sys/class/net/berth0/address').trim()).to.equal(macOf(gateway))
      lab.unplug(low)
    })

    it('attaches although the tables were flushed', async () => {
      lab.in(lab.host, 'nft', 'delete table bridge berth; delete table ip berth; delete table inet berth')
      await agent.call('attach', a)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
      expect(await agent.ensure(all)).to.deep.equal([])
    })

    it('goes on when nft is killed', async () => {
      for (const pid of childrenOf(agent.child.pid!, 'nft')) process.kill(pid, 'SIGKILL')
      await agent.call('attach', a)
      expect(await agent.ensure(all)).to.deep.equal([])
    })

    it('starts over as another process without changing anything', async () => {
      await agent.end()
      agent = lab.agent()
      await agent.call('attach', a)
      expect(await agent.ensure(all)).to.deep.equal([])
    })

    it('repairs by itself what others change, at once', async () => {
      await agent.end()
      agent = lab.agent({ watches: true })
      await agent.ensure(all)
      const mended = (): boolean => sorted(lab.in(lab.host, 'nft', 'list', 'ruleset')).join() === right
      const right = sorted(lab.in(lab.host, 'nft', 'list', 'ruleset')).join()
      for (const by of [
        'delete element ip berth ports { tcp . 20001 }',
        'insert rule inet berth guest_to_host accept',
        'delete table bridge berth',
      ]) {
        lab.in(lab.host, 'nft', by)
        expect(mended()).to.equal(false)
        await waitFor(mended, { timeoutMs: 5000, what: `repair after ${by}` })
      }
    })

    it('guards anew, at once, when the owner of the guard was killed', async () => {
      const right = sorted(lab.in(lab.host, 'nft', 'list', 'tables')).join()
      expect(right).to.contain('inet berth_guard')
      for (const pid of readChildren(agent.child.pid!))
        if (findProcess(pid)?.command === 'nft') process.kill(pid, 'SIGKILL')
      const tables = (): string => sorted(lab.in(lab.host, 'nft', 'list', 'tables')).join()
      await waitFor(() => tables() !== right, { what: 'the guard gone' })
      await waitFor(() => tables() === right, { timeoutMs: 5000, what: 'the guard' })
    })

    it('does not bring back a guest that is being deleted', async () => {
      const c = lab.guest(13, [tcp(20003)])
      await agent.call('attach', c)
      await agent.call('detach', c)
      expect(await agent.ensure([...all, c])).to.deep.equal([])
      expect(await agent.ensure(all)).to.deep.equal([])
      expect(await agent.ensure([...all, c])).to.deep.equal(['6 nft elements added'])
      await agent.ensure(all)
    })

    it('leaves foreign tables alone', () => {
      expect(lab.in(lab.host, 'nft', 'list', 'table', 'inet', 'foreign')).to.include('chain keep')
    })
  })

  function flowsOf(address: string): string {
    const from = lab.in(lab.host, 'conntrack', '-L', '--orig-src', address)
    return from + lab.in(lab.host, 'conntrack', '-L', '--reply-src', address)
  }

  describe('change of owner', () => {
    // One that brings nothing back by itself: what is attached here is in no journal.
    before(async () => {
      await agent.end()
      agent = lab.agent()
      await agent.ensure(all)
    })

    const attach = (guest: GuestNetwork): Promise<unknown> => agent.call('attach', guest)

    it("replaces a guest's mappings", async () => {
      await attach({ ...a, portMappings: [tcp(20003)] })
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20003`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal('')
      await attach(a)
      expect(lab.in(lab.host, 'nft', 'list', 'map', 'ip', 'berth', 'ports')).to.not.include('20003')
    })

    it("does not give an old client's flow to the earlier guest of a port", async () => {
      const asked = (): string =>
        lab.ask(lab.client, `udp:${hostAddress}:20001`, { sport: 5353, timeoutSeconds: 3 })
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
      await agent.call('detach', a)
      await attach({ ...b, portMappings: [tcp(20002), udp(20001)] })
      expect(asked()).to.equal(`bt12 ${clientAddress}`)
      await attach(b)
      await attach(a)
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
    })

    it('takes a port from an earlier guest that was never detached', async () => {
      await attach({ ...b, portMappings: [tcp(20002), tcp(20001)] })
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt12 ${clientAddress}`)
      await attach(b)
      await attach(a)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
    })

    it('serves a client that sent datagrams before there was a mapping', async () => {
      const asked = (): string =>
        lab.ask(lab.client, `udp:${hostAddress}:20009`, { sport: 5454, timeoutSeconds: 0.3 })
      expect(asked()).to.equal('')
      await attach({ ...a, portMappings: [...a.portMappings, udp(20009)] })
      expect(lab.ask(lab.client, `udp:${hostAddress}:20009`, { sport: 5455 })).to.equal(
        `bt11 ${clientAddress}`,
      )
      await waitFor(() => asked() === `bt11 ${clientAddress}`)
      await attach(a)
    })

    it("forgets flows of an address's earlier owner", async () => {
      expect(lab.ask(inA, `udp:${clientAddress}:53`, { sport: 4444 })).to.equal(`client ${hostAddress}`)
      expect(flowsOf(a.ipv4)).to.not.equal('')
      await agent.call('detach', a)
      await attach(a)
      expect(flowsOf(a.ipv4)).to.equal('')
    })

    it('forgets all flows although some end between being listed and being deleted', async () => {
      for (let round = 0; round < 3; round += 1) {
        lab.tool(inA, 'flood', clientAddress, '12000')
        const others = ['--orig-src', '--reply-dst'].map((filter) =>
          spawn('ip', ['netns', 'exec', lab.host, 'sh', '-c', deleteAgain, filter, a.ipv4], {
            stdio: 'ignore',
          }),
        )
        const ended = others.map((child) => once(child, 'exit'))
        await agent.call('detach', a)
        await attach(a)
        expect(flowsOf(a.ipv4)).to.equal('') // gone before anybody can have the address again
        await Promise.all(ended)
      }
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

    it('works beside the first', async () => {
      const other = second.agent()
      await other.ensure([x])
      second.plug(x)
      await second.serve(second.namespaceOf(x), x.device, 'tcp:22')
      expect(lab.ask(lab.client, `tcp:${hostAddress}:30001`)).to.equal(`bx11 ${clientAddress}`)
      expect(lab.ask(inB, `tcp:${hostAddress}:30001`)).to.match(/^bx11 /)
      expect(lab.ask(second.namespaceOf(x), `tcp:${hostAddress}:20001`)).to.match(/^bt11 /)
      expect(lab.ask(inB, `tcp:${x.ipv4}:22`)).to.equal('')
      expect(await agent.ensure(all)).to.deep.equal([])
      expect(await other.ensure([x])).to.deep.equal([])
      await other.call('remove')
      expect(await agent.ensure(all)).to.deep.equal([])
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
      await other.end()
    })
  })

  describe('a purge that something else comes between', () => {
    it('is remembered until it is done', async () => {
      // It may still have too many open: now and then one is refused.
      await waitFor(() => lab.ask(inA, `udp:${clientAddress}:53`, { sport: 4445 }) !== '')
      const fresh = lab.agent()
      // The elements go, the bridge cannot be mended: it is something else.
      lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'down')
      lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'name', 'berth9')
      lab.in(lab.host, 'ip', 'link', 'add', 'berth0', 'type', 'veth', 'peer', 'name', 'berth1')
      try {
        const failed = await fresh.ensure([b]).catch((error: Error) => error.message)
        expect(failed).to.contain('is no bridge')
      } finally {
        lab.in(lab.host, 'ip', 'link', 'delete', 'berth0')
        lab.in(lab.host, 'ip', 'link', 'set', 'berth9', 'name', 'berth0')
        lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'up')
      }
      expect(flowsOf(a.ipv4)).to.contain('sport=4445')
      await fresh.ensure([b])
      expect(flowsOf(a.ipv4)).to.equal('')
      await fresh.end()
    })
  })

  describe('removal', () => {
    it('removes what it made and nothing else', async () => {
      await agent.call('remove')
      expect(lab.in(lab.host, 'nft', 'list', 'tables').trim()).to.equal('table inet foreign')
      expect(lab.in(lab.host, 'ip', '-o', 'link')).to.not.include('berth0:')
      await agent.end()
    })
  })
})

/** Elements that packets add, and that end by themselves. */
const fleeting = /^[\da-f.:]+ .*(?:ct count|limit rate|expires)/

/** Elements and tables come in any order. */
function sorted(ruleset: string): string[] {
  const lines = ruleset
    .split('\n')
    .map((line) => line.replace(/elements = \{|[{},]|packets \d+ bytes \d+/g, '').trim())
  return lines.filter((line) => line !== '' && !line.includes('fingerprint') && !fleeting.test(line)).sort()
}

function childrenOf(pid: number, name: string): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  const pids = text.split(' ').filter(Boolean).map(Number)
  return pids.filter((child) => readFileSync(`/proc/${child}/comm`, 'utf8').trim() === name)
}
