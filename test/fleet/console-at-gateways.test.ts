import { join } from 'node:path'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { ConsoleClient } from '../support/gateway/console-client.js'
import { GatewayGroup, type GroupMember } from '../support/gateway/gateway-group.js'
import { LabAgent, uuidOf } from '../support/memory/lab-agent.js'
import { expectInTime } from '../support/promised-time.js'
import { waitFor } from '../support/wait.js'

const container = 'sim-1'
const resumeWithinMs = 3000

describe('a console in a fleet with two gateways', function () {
  let group: GatewayGroup
  let agent: LabAgent
  let first: GroupMember
  let second: GroupMember

  before(async () => {
    group = await GatewayGroup.start(2)
    ;[first, second] = group.members as [GroupMember, GroupMember]
    const added = await first.request('POST', '/hosts', { body: { name: 'lab', address: '127.0.0.1:2' } })
    const identityDir = join(group.directory, 'agent')
    await joinGateway(added.body.data.join_token, identityDir)
    agent = await LabAgent.start({ identityDir })
    agent.seed(1)
    const path = `/hosts/${added.body.data.host.id}`
    await first.request('PATCH', path, { body: { address: agent.address } })
    for (const member of group.members)
      await waitFor(async () => (await member.request('GET', path)).body.data?.status === 'online', {
        what: 'the host',
      })
  })
  after(async () => {
    agent?.host.consoles.holder.closeAll()
    await group?.close()
    await agent?.destroy()
  })

  const ticketOf = async (member: GroupMember): Promise<string> => {
    const { status, text, body } = await member.request('POST', '/ssh-ticket', { body: { container_name: container } })
    expect(status, text).to.equal(200)
    return (body.data as { ticket: string }).ticket
  }
  const connect = (member: GroupMember, ticket: string, resume: Record<string, string> = {}): ConsoleClient =>
    ConsoleClient.open(`${member.url}/api/v1/ssh`, {
      protocols: ['berth.console.v1', `berth-ticket.${ticket}`],
      query: { container, ...resume },
    })
  const terminal = () => agent.host.consoles.terminals.findLast(({ guestUuid }) => guestUuid === uuidOf(1))!

  it('opens at one gateway with a ticket from another gateway', async () => {
    const client = connect(second, await ticketOf(first))
    expect((await client.ready()).state).to.equal('ready')
    client.socket.close(1000)
    await client.ended()
  })

  it('continues at the other gateway after the first gateway was killed, without lost or repeated output', async () => {
    const before = connect(first, await ticketOf(first))
    const { resume } = await before.ready()
    const guest = terminal()
    let lines = 0
    const writing = setInterval(() => guest.show(`line ${++lines}\n`), 2)
    try {
      await before.shows(/line 200\n/)
      await first.process.kill()
      const lostMs = performance.now()
      await before.ended()
      const after = connect(second, await ticketOf(second), { resume, received: String(before.received) })
      const status = await after.ready()
      expectInTime(lostMs, resumeWithinMs, 'the console continues')
      expect([status.state, status.offset, status.replay ?? 0]).to.deep.equal(['resumed', before.received, 0])
      after.type('typed at the second gateway')
      await waitFor(() => guest.input.includes('typed at the second gateway'), { what: 'the input' })
      const last = lines + 200
      await after.shows(new RegExp(`line ${last}\n`))
      const all = Array.from({ length: last }, (_, index) => `line ${index + 1}\n`).join('')
      expect((before.text + after.text).slice(0, all.length)).to.equal(all)
      after.socket.close(1000)
    } finally {
      clearInterval(writing)
      first.process.start()
      await first.process.ready()
    }
  })

  it('continues at the other gateway even before the agent notices that the first gateway hangs', async () => {
    const before = connect(first, await ticketOf(first))
    const { resume } = await before.ready()
    const guest = terminal()
    guest.show('seen before\n')
    await before.shows(/seen before/)
    process.kill(first.process.pid, 'SIGSTOP')
    try {
      guest.show('not seen before\n')
      const after = connect(second, await ticketOf(second), { resume, received: String(before.received) })
      expect((await after.ready()).state).to.equal('resumed')
      await after.shows(/^not seen before\n$/)
      after.socket.close(1000)
    } finally {
      process.kill(first.process.pid, 'SIGCONT')
      before.socket.terminate()
    }
  })
})
