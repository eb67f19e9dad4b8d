import { expect } from 'chai'
import { macOf } from '../../agent/network/subnet.js'
import { killChildren } from '../support/kill.js'
import { clientAddress, hostAddress } from '../support/network/network-lab.js'
import { gateway, NetworkPair, tcp } from '../support/network/network-pair.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/* In these tests, other programs change the tables and the bridge. */

describe('damage to the nft rules, bridge and interfaces', function () {
  const pair = new NetworkPair('btestdmg')
  const { lab, a, b, all, inA } = pair

  before(async () => {
    await pair.open()
    const foreign = 'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter'
    lab.in(lab.host, 'nft', foreign)
  })
  after(() => lab.remove())

  it('is not found on a correct host', async () => {
    expect(await pair.agent.ensure(all)).to.deep.equal([])
  })

  it('is repaired completely if another program deletes all rules', async () => {
    lab.in(lab.host, 'nft', 'flush', 'ruleset')
    expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal('')
    expect(await pair.agent.ensure(all)).to.deep.equal(['nft tables created'])
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
    expect(lab.ask(inA, `tcp:${hostAddress}:8080`)).to.equal('')
    lab.in(lab.host, 'nft', 'add table inet foreign; add chain inet foreign keep; add rule inet foreign keep counter')
  })

  const damages: Record<string, { by: string; repairs: string[] }> = {
    'an added nft rule': { by: 'insert rule inet berth guest_to_host accept', repairs: ['nft tables rebuilt'] },
    'a flushed nft chain': { by: 'flush chain bridge berth from_guest', repairs: ['nft tables rebuilt'] },
    'a deleted nft table': { by: 'delete table ip berth', repairs: ['nft tables rebuilt'] },
    'a changed policy of an nft chain': {
      by: 'add chain inet berth forward { policy drop; }',
      repairs: ['nft tables rebuilt'],
    },
    'a deleted element of an nft map': {
      by: 'delete element ip berth ports { tcp . 20001 }',
      repairs: ['1 nft elements added'],
    },
    'a changed element of an nft map': {
      by: `delete element ip berth ports { tcp . 20001 }; add element ip berth ports { tcp . 20001 : ${b.ipv4} . 22 }`,
      repairs: ['1 nft elements removed', '1 nft elements added'],
    },
    'nft elements of a guest that does not exist': {
      by: 'add element ip berth ports { udp . 29000 : 10.77.0.99 . 22 }; add element bridge berth guests { "bt99" . 02:be:00:00:00:99 . 10.77.0.99 }',
      repairs: ['2 nft elements removed'],
    },
  }
  for (const [name, { by, repairs }] of Object.entries(damages))
    it(`is repaired if it is ${name}`, async () => {
      const before = lab.in(lab.host, 'nft', 'list', 'ruleset')
      lab.in(lab.host, 'nft', by)
      expect(await pair.agent.ensure(all)).to.deep.equal(repairs)
      expect(await pair.agent.ensure(all)).to.deep.equal([])
      expect(sorted(lab.in(lab.host, 'nft', 'list', 'ruleset'))).to.deep.equal(sorted(before))
    })

  it('is repaired on the bridge and in the kernel settings', async () => {
    lab.in(lab.host, 'ip', 'address', 'flush', 'dev', 'berth0')
    lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'address', '02:00:00:00:00:07')
    lab.in(lab.host, 'sysctl', '-qw', 'net.ipv4.conf.berth0.route_localnet=1', 'net.ipv4.ip_forward=0')
    expect(await pair.agent.ensure(all)).to.include.members([
      'bridge berth0 repaired',
      'net.ipv4.ip_forward: 0 → 1',
      'net.ipv4.conf.berth0.route_localnet: 1 → 0',
    ])
    expect(await pair.agent.ensure(all)).to.deep.equal([])
    await waitFor(() => lab.ask(lab.client, `tcp:${hostAddress}:20001`))
  })

  it('does not arise when guests are added or removed, because the bridge keeps its MAC address', () => {
    const low = { ...lab.guest(14), mac: '00:00:00:00:00:01' }
    lab.plug(low)
    expect(lab.in(lab.host, 'cat', '/sys/class/net/berth0/address').trim()).to.equal(macOf(gateway))
    lab.unplug(low)
  })

  it('does not prevent the attachment of a guest if all nft tables were deleted', async () => {
    lab.in(lab.host, 'nft', 'delete table bridge berth; delete table ip berth; delete table inet berth')
    await pair.agent.call('attach', a)
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
    expect(lab.answer(lab.client, `tcp:${hostAddress}:20002`)).to.equal(`bt12 ${clientAddress}`)
    expect(await pair.agent.ensure(all)).to.deep.equal([])
  })

  it('does not arise when nft is killed', async () => {
    killChildren(pair.agent.child.pid!, 'nft')
    await pair.agent.call('attach', a)
    expect(await pair.agent.ensure(all)).to.deep.equal([])
  })

  it('does not arise when a new agent starts', async () => {
    await pair.agent.end()
    pair.agent = lab.agent()
    await pair.agent.call('attach', a)
    expect(await pair.agent.ensure(all)).to.deep.equal([])
  })

  it('is repaired automatically within seconds', async () => {
    await pair.agent.end()
    pair.agent = lab.agent({ watches: true })
    await pair.agent.ensure(all)
    const isRepaired = (): boolean => sorted(lab.in(lab.host, 'nft', 'list', 'ruleset')).join() === right
    const right = sorted(lab.in(lab.host, 'nft', 'list', 'ruleset')).join()
    for (const by of [
      'delete element ip berth ports { tcp . 20001 }',
      'insert rule inet berth guest_to_host accept',
      'delete table bridge berth',
    ]) {
      lab.in(lab.host, 'nft', by)
      expect(isRepaired()).to.equal(false)
      await waitFor(isRepaired, { timeoutMs: deadlineOf(5000), what: `repair after ${by}` })
    }
  })

  it('is repaired if the guard table is lost (it blocks guests while the agent’s rules are missing)', async () => {
    const right = sorted(lab.in(lab.host, 'nft', 'list', 'tables')).join()
    expect(right).to.contain('inet berth_guard')
    killChildren(pair.agent.child.pid!, 'nft')
    const tables = (): string => sorted(lab.in(lab.host, 'nft', 'list', 'tables')).join()
    await waitFor(() => tables() !== right, { what: 'the guard gone' })
    await waitFor(() => tables() === right, { timeoutMs: deadlineOf(5000), what: 'the guard' })
  })

  it('is not reported for a detached guest, because its rules were deleted with the detachment', async () => {
    const c = lab.guest(13, [tcp(20003)])
    // Ends the previous agent. It does not know the guest `c`, so its repairs would remove the rules of this guest.
    await pair.agent.end()
    pair.agent = lab.agent()
    await pair.agent.ensure(all)
    await pair.agent.call('attach', c)
    await pair.agent.call('detach', c)
    expect(await pair.agent.ensure([...all, c])).to.deep.equal([])
    expect(await pair.agent.ensure(all)).to.deep.equal([])
    expect(await pair.agent.ensure([...all, c])).to.deep.equal(['6 nft elements added'])
    await pair.agent.ensure(all)
  })

  it('is repaired without changing tables of other programs', () => {
    expect(lab.in(lab.host, 'nft', 'list', 'table', 'inet', 'foreign')).to.include('chain keep')
  })
})

/** Matches entries of nft sets that packets have added. These entries expire, so they differ at each reading. */
const fleeting = /^[\da-f.:]+ .*(?:ct count|limit rate|expires)/

/** Returns the lines in a fixed order, because nft lists tables, and the entries of sets, in any order. */
function sorted(ruleset: string): string[] {
  const lines = ruleset.split('\n').map((line) => line.replace(/elements = \{|[{},]|packets \d+ bytes \d+/g, '').trim())
  return lines.filter((line) => line !== '' && !line.includes('fingerprint') && !fleeting.test(line)).sort()
}
