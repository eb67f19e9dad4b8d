import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Ip } from '../../agent/host/net/ip.js'
import { NetlinkWatch, type NetlinkTopic } from '../../agent/host/net/netlink-watch.js'
import { Nft } from '../../agent/host/net/nft.js'
import { Tc } from '../../agent/host/net/tc.js'
import { killChildren } from '../support/kill.js'
import { waitFor } from '../support/wait.js'

const run = promisify(execFile)
const names = { table: 'berthnlw', bridge: 'nlwbr', interface_prefix: 'nlw' }
const topics: readonly NetlinkTopic[] = ['tables', 'others', 'rates', 'links']

describe('the netlink watch for changes by other programs', () => {
  let watch: NetlinkWatch
  const told: NetlinkTopic[] = []
  const tools = { nft: new Nft(), tc: new Tc(), ip: new Ip() }

  before(async () => {
    await remove()
    await command('ip link add nlw1 type veth peer name nlwpeer')
    await command('nft add table ip berthnlw2')
    watch = new NetlinkWatch(names)
    for (const topic of topics) watch.onChange(topic, () => told.push(topic))
    await waitFor(() => told.length === topics.length, { what: 'the first report' })
  })

  after(async () => {
    watch.close()
    await Promise.all(Object.values(tools).map((tool) => tool.close()))
    await remove()
  })

  it('ignores changes by programs that the agent itself has started', async () => {
    await expectSilence(async () => {
      await tools.nft.apply(['add table ip berthnlw', 'delete table ip berthnlw'])
      await tools.tc.run(['qdisc add dev nlwpeer root handle 7: htb', 'qdisc delete dev nlwpeer root'])
    })
  })

  for (const [what, line] of [
    ['a change of an interface that does not belong to the agent', 'ip link set nlwpeer mtu 1400'],
  ] as [string, string][])
    it(`ignores ${what}`, () => expectSilence(() => command(line)))

  for (const [what, line, topic] of [
    ['a new nft table', 'nft add table ip berthnlw', 'tables'],
    ['a new nft rule', 'nft add chain ip berthnlw c; add rule ip berthnlw c accept', 'tables'],
    ['a new nft set element', 'nft add set ip berthnlw s { type mark ; }; add element ip berthnlw s { 7 }', 'tables'],
    ['the deletion of an nft table', 'nft delete table ip berthnlw', 'tables'],
    ['a change of an nft table of another program', 'nft add chain ip berthnlw2 berthnlw', 'others'],
    [
      'a rule of another program that contains the name of the agent’s table',
      'nft add rule ip berthnlw2 berthnlw accept comment "berthnlw"',
      'others',
    ],
    ['a new qdisc', 'tc qdisc add dev nlw1 root handle 1: htb', 'rates'],
    ['a new traffic class', 'tc class add dev nlw1 parent 1: classid 1:1 htb rate 1mbit', 'rates'],
    ['the activation of a guest interface', 'ip link set nlw1 up', 'links'],
    ['the creation of the bridge', 'ip link add nlwbr type bridge', 'links'],
    ['the attachment of a guest interface', 'ip link set nlw1 master nlwbr', 'links'],
    ['the detachment of a guest interface', 'ip link set nlw1 nomaster', 'links'],
    ['a new address', 'ip address add 198.18.77.1/32 dev nlwpeer', 'links'],
    ['a new shaping interface', 'ip link add nlw1u type ifb', 'links'],
    ['the deletion of a guest interface', 'ip link delete nlw1', 'links'],
  ] as [string, string, NetlinkTopic][])
    it(`reports ${what}`, async () => {
      told.length = 0
      await command(line)
      await waitFor(() => told.includes(topic), { what: topic })
      expect([...new Set(told)]).to.deep.equal([topic])
    })

  it('reports that anything may have changed when its process ends and when it restarts', async () => {
    told.length = 0
    expect(killChildren(process.pid, 'berth-netlink-w')).to.equal(1)
    await waitFor(() => topics.every((topic) => told.filter((t) => t === topic).length === 2), {
      what: 'reports of its end and its restart',
    })
    told.length = 0
    await command('nft add table ip berthnlw')
    await waitFor(() => told.includes('tables'), { what: 'tables' })
  })

  /** Fails if `change` is reported. Changes an address after `change`. The first report must be about this address. */
  async function expectSilence(change: () => Promise<void>): Promise<void> {
    told.length = 0
    await change()
    await command('ip address add 198.18.77.1/32 dev nlwpeer')
    await waitFor(() => told.includes('links'), { what: 'the mark' })
    expect(told).to.deep.equal(['links'])
    await command('ip address delete 198.18.77.1/32 dev nlwpeer')
    await waitFor(() => told.length === 2, { what: 'the mark removed' })
  }
})

async function command(line: string): Promise<void> {
  const [program = '', ...args] = line.split(' ')
  await run(program, args)
}

async function remove(): Promise<void> {
  for (const line of [
    'nft delete table ip berthnlw',
    'nft delete table ip berthnlw2',
    'ip link delete nlw1',
    'ip link delete nlw1u',
    'ip link delete nlwpeer',
    'ip link delete nlwbr',
  ])
    await command(line).catch(() => undefined)
}
