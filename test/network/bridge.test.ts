import { expect } from 'chai'
import { macOf } from '../../agent/network/subnet.js'
import { ipv4Frame, udp6Frame } from '../support/network/frames.js'
import {
  clientAddress,
  clientAddress6,
  guestPrefix6,
  hostAddress,
  NetworkLab,
  type AgentNetwork,
} from '../support/network/network-lab.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/* In these tests, other programs change the bridge and its ports. Real packets show what the guest can still reach. */

const other = 'other0'
const quick = { timeoutSeconds: 0.3 }

describe('a guest', function () {
  const lab = new NetworkLab('btestport')
  const a = lab.guest(11, [], { ipv6Addresses: [`${guestPrefix6}11`] })
  const closed = { enabled: true, defaultAction: 'DROP', rules: [] } as const
  const b = lab.guest(12, [], { ipv6Addresses: [`${guestPrefix6}12`] })
  const c = lab.guest(13, [], { firewall: closed })
  const all = [a, b, c]
  const [inA, inB] = [a, b].map((guest) => lab.namespaceOf(guest)) as [string, string]
  const onHost = (...args: string[]): string => lab.in(lab.host, ...(args as [string, ...string[]]))
  let agent: AgentNetwork

  before(async () => {
    lab.build()
    agent = lab.agent()
    await agent.ensure(all)
    for (const guest of all) {
      lab.plug(guest)
      await lab.serve(lab.namespaceOf(guest), guest.device, 'tcp:22')
    }
    await lab.serve(lab.client, 'client', 'tcp:80')
    await lab.serve(lab.host, 'host', 'tcp:8080', 'udp:53')
    await waitFor(() => lab.ask(inA, `tcp:${clientAddress}:80`), { what: 'the way out' })
    onHost('ip', 'link', 'add', other, 'type', 'bridge')
    onHost('ip', 'link', 'set', other, 'up')
  })
  after(() => lab.remove())

  for (const [place, at, move] of [
    ['whose interface another program detached from the bridge', a.device, ['nomaster']],
    ['whose interface another program moved to another bridge', other, ['master', other]],
  ] as const)
    describe(`${place} while no agent ran`, () => {
      let linkLocal: string
      let mac: string

      before(async () => {
        await agent.end()
        onHost('ip', 'link', 'set', a.device, ...move)
        for (const device of ['all', at]) onHost('sysctl', '-qw', `net.ipv4.conf.${device}.rp_filter=0`)
        onHost('ip', 'route', 'add', `${a.ipv4}/32`, 'dev', at)
        mac = onHost('cat', `/sys/class/net/${at}/address`).trim()
        lab.in(inA, 'ip', 'neighbour', 'flush', 'dev', 'eth0')
        linkLocal = await waitFor(() => findLinkLocal(at), { what: 'a link-local address' })
      })
      after(() => onHost('ip', 'link', 'set', a.device, 'master', 'berth0'))

      it('reaches nothing on the host', () => {
        const targets = [
          `tcp:${linkLocal}%eth0:8080`,
          `udp:${linkLocal}%eth0:53`,
          `tcp:${hostAddress}:8080`,
          `udp:${hostAddress}:53`,
          `tcp:10.77.0.1:8080`,
        ]
        const answered = targets.filter((target) => lab.ask(inA, target) !== '')
        expect(answered).to.deep.equal([])
      })

      it('reaches nothing through the host', () => {
        expect(lab.ask(inA, `tcp:${clientAddress}:80`)).to.equal('')
        expect(lab.ask(inA, `tcp:${b.ipv4}:22`)).to.equal('')
      })

      it('cannot deliver forged packets', async () => {
        const [seenByB, seenByClient] = [await lab.sniff(inB, 'eth0'), await lab.sniff(lab.client, 'eth0')]
        const [strange, link] = ['02:be:00:00:00:99', { from: a.mac, to: mac }]
        const to = { from: '198.51.100.77', to: clientAddress }
        const toB = { from: clientAddress6, to: `${guestPrefix6}12` }
        lab.tool(
          ...([inA, 'send', 'eth0'] as const),
          ipv4Frame({ ...link, from: strange }, { ...to, from: '10.99.9.9' }, 'mac'),
          ipv4Frame(link, to, 'ip'),
          ipv4Frame(link, { from: a.ipv4, to: clientAddress }, 'own'),
          udp6Frame(link, toB, [4000, 9], 'ip6'),
          udp6Frame(link, { ...toB, from: `${guestPrefix6}11` }, [4000, 9], 'own6'),
        )
        const link12 = { from: macOf('10.77.0.1'), to: b.mac }
        lab.tool(lab.host, 'send', 'berth0', ipv4Frame(link12, { from: '10.77.0.1', to: b.ipv4 }, 'last'))
        const up = { from: a.mac, to: lab.in(lab.client, 'cat', '/sys/class/net/eth0/address').trim() }
        lab.tool(lab.host, 'send', 'up0', ipv4Frame(up, { from: hostAddress, to: clientAddress }, 'last'))
        await waitFor(() => seenByB.has('last') && seenByClient.has('last'), { what: 'the last frames' })
        expect([...seenByB, ...seenByClient]).to.deep.equal(['last', 'last'])
      })

      it('does not affect other guests', () => {
        expect(lab.answer(inB, `tcp:${clientAddress}:80`)).to.equal(`client ${hostAddress}`)
      })

      it('is attached to its bridge again when the next agent starts', async () => {
        onHost('ip', 'route', 'flush', a.ipv4)
        agent = lab.agent()
        expect(await agent.ensure(all)).to.include(`${a.device} returned to berth0`)
        expect(await agent.ensure(all)).to.deep.equal([])
        const hasLeft = (): boolean => lab.ask(inA, `tcp:${clientAddress}:80`, quick) !== ''
        await waitFor(hasLeft, {
          timeoutMs: deadlineOf(5000),
          what: 'the guest, which had learned another MAC for the gateway',
        })
      })

      it('reaches nothing on the host even if all nft rules are missing', async () => {
        onHost('nft', 'flush', 'ruleset')
        onHost('ip', 'link', 'set', a.device, ...move)
        for (const to of [`${linkLocal}%eth0`, hostAddress]) expect(lab.ask(inA, `udp:${to}:53`), to).to.equal('')
        const repairs = ['nft tables created', `${a.device} returned to berth0`]
        expect(await agent.ensure(all)).to.include.members(repairs)
      })
    })

  describe('if another program changes its bridge while an agent runs', () => {
    before(async () => {
      await agent.end()
      agent = lab.agent({ watches: true })
      await agent.ensure(all)
      await waitFor(() => answering().length === 2, { what: 'both guests' })
    })

    for (const [what, line] of [
      ['its interface was detached', `ip link set ${a.device} nomaster`],
      ['its interface was attached to another bridge', `ip link set ${a.device} master ${other}`],
      ['the bridge was deleted', 'ip link delete berth0'],
      ['the bridge was set down', 'ip link set berth0 down'],
    ] as const)
      it(`is attached to its bridge again within 5 s after ${what}`, async () => {
        onHost(...line.split(' '))
        await waitFor(() => lab.ask(inA, `tcp:${clientAddress}:80`, quick), {
          timeoutMs: deadlineOf(5000),
          what,
        })
        await waitFor(() => answering().join() === 'bt11,bt12', { what: 'both guests' })
        expect(onHost('ls', '/sys/class/net/berth0/brif').trim().split(/\s+/)).to.have.members(
          all.map(({ device }) => device),
        )
        expect(lab.ask(inA, `tcp:${hostAddress}:8080`)).to.equal('')
      })

    it('is not attached to the bridge while its interface is down, because an operator can set it down', async () => {
      onHost('ip', 'link', 'set', a.device, 'nomaster', 'down')
      onHost('ip', 'link', 'set', b.device, 'nomaster')
      await waitFor(() => answering().includes('bt12'), { timeoutMs: deadlineOf(5000), what: 'the other' })
      expect(onHost('ls', '/sys/class/net/berth0/brif')).to.not.contain('bt11')
      onHost('ip', 'link', 'set', a.device, 'up')
      await waitFor(() => answering().length === 2, { timeoutMs: deadlineOf(5000), what: 'the guest' })
    })

    it('is not attached to its bridge again if both its interface and the bridge were deleted', async () => {
      lab.unplug(c)
      expect(await agent.ensure(all)).to.deep.equal([])
    })
  })

  /** Interface names of the guests that the host reaches. */
  function answering(): string[] {
    const asked = all.map(({ ipv4 }) => lab.ask(lab.host, `tcp:${ipv4}:22`, quick))
    return asked.filter(Boolean).map((answer) => answer.split(' ')[0]!)
  }

  /** The link-local address of an interface; undefined until the kernel has checked it for duplicates. */
  function findLinkLocal(device: string): string | undefined {
    const [shown] = JSON.parse(onHost('ip', '-json', '-6', 'address', 'show', 'dev', device)) as ShownInterface[]
    return shown?.addr_info.find(({ scope, tentative }) => scope === 'link' && !tentative)?.local
  }
})

interface ShownInterface {
  readonly addr_info: readonly {
    readonly local: string
    readonly scope: string
    readonly tentative?: boolean
  }[]
}
