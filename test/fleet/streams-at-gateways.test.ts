import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { EventStream, type ReceivedEvent } from '../support/gateway/event-stream.js'
import { GatewayGroup, type GroupMember } from '../support/gateway/gateway-group.js'
import { LabAgent, uuidOf } from '../support/memory/lab-agent.js'
import { SlowLine } from '../support/slow-line.js'
import { waitFor } from '../support/wait.js'

const guestsPerHost = 3
const switches = 30
/** Delay in ms of the connection of one gateway to the second host. */
const slowMs = 80

/** Types of events that streams contain while guests change. On a busy machine, hosts are offline for short times. */
const possible: ReadonlySet<string> = new Set([
  'ready',
  'beat',
  'guest.updated',
  'guest.host',
  'host.offline',
  'host.online',
  'host.updated',
])

/** One of the guests that change constantly. Its changes are numbered from 1. */
interface ChangingGuest {
  readonly agent: LabAgent
  readonly id: number
  changes: number
}

describe('an event stream that resumes at another gateway', function () {
  let group: GatewayGroup
  const agents: LabAgent[] = []
  const hostIds: string[] = []
  const lines: SlowLine[] = []
  const open: EventStream[] = []

  before(async () => {
    group = await GatewayGroup.start(2)
    for (const index of [0, 1]) await addHost(index)
  })
  afterEach(() => open.splice(0).forEach((stream) => stream.close()))
  after(async () => {
    await group?.close()
    for (const line of lines) line.close()
    for (const agent of agents) await agent.destroy()
  })

  async function addHost(index: number): Promise<void> {
    const [first] = group.members as [GroupMember]
    const added = await first.request('POST', '/hosts', { body: { name: `lab-${index}`, address: '127.0.0.1:2' } })
    const identityDir = join(group.directory, `agent-${index}`)
    await joinGateway(added.body.data.join_token, identityDir)
    const agent = await LabAgent.start({ identityDir })
    agents.push(agent)
    agent.seed(guestsPerHost, 1 + index * guestsPerHost)
    hostIds.push(added.body.data.host.id)
    const address = index === 0 ? agent.address : await slowAddressOf(agent)
    await first.request('PATCH', `/hosts/${hostIds[index]}`, { body: { address } })
    for (const member of group.members) await online(member, index)
  }

  /** Returns an address of the agent at which every second connection is slow, so that one gateway is behind. */
  async function slowAddressOf({ address }: LabAgent): Promise<string> {
    const port = Number(address.split(':')[1])
    const line = await SlowLine.start({ port, host: '127.0.0.1' }, slowMs, (_, connection) => connection % 2 === 0)
    lines.push(line)
    return line.address
  }

  const online = (member: GroupMember, index: number) =>
    waitFor(
      async () => {
        const reply = await member.request('GET', `/hosts/${hostIds[index]}`).catch(() => undefined)
        return reply?.body.data?.status === 'online'
      },
      { what: () => `host ${index} online\n${member.process.logTail()}` },
    )

  const stream = async (
    { process }: GroupMember,
    lastId = '',
    key = group.members[0]!.process.adminKey,
  ): Promise<EventStream> => {
    const headers = { 'x-api-key': key, ...(lastId && { 'last-event-id': lastId }) }
    const opened = await EventStream.open(process.url, headers, '?kinds=guest,host,task')
    open.push(opened)
    await opened.wait(({ event }) => event === 'ready' || event === 'reset', 'the beginning')
    return opened
  }
  const lastIdOf = (events: readonly ReceivedEvent[]): string => events.findLast(({ id }) => id !== '')!.id
  const reasonsOf = (events: readonly ReceivedEvent[], id: number): unknown[] =>
    events.flatMap(({ data }) => (data.data?.['id'] === id ? [data.data['status_reason']] : []))

  /**
   * Changes all guests constantly until `stop` is called. Changes a guest again only when all witnesses have received
   * its last change. Otherwise, agents could omit changes for a gateway that is too slow.
   */
  function changeGuests(witnesses: () => readonly EventStream[]) {
    const guests = agents.flatMap((agent, index) =>
      Array.from({ length: guestsPerHost }, (_, n): ChangingGuest => {
        return { agent, id: 1 + index * guestsPerHost + n, changes: 0 }
      }),
    )
    let stopped = false
    const change = async (guest: ChangingGuest): Promise<void> => {
      while (!stopped) {
        const text = String(++guest.changes)
        guest.agent.update(uuidOf(guest.id), { statusReason: text })
        await waitFor(() => witnesses().every(({ events }) => reasonsOf(events, guest.id).includes(text)), {
          what: () => `change ${text} of guest ${guest.id}`,
        })
      }
    }
    const done = Promise.all(guests.map(change))
    const stop = async (): Promise<ChangingGuest[]> => {
      stopped = true
      await done
      return guests
    }
    return { stop }
  }

  const beginningsIn = (events: readonly ReceivedEvent[]): string[] =>
    events.flatMap(({ event }) => (event === 'ready' || event === 'reset' ? [event] : []))
  const logs = (): string => group.members.map(({ process }) => process.logTail()).join('\n')

  /** Waits until the client has the last change of each guest, and checks that it has every change once, in order. */
  async function expectAll(guests: readonly ChangingGuest[], read: () => readonly ReceivedEvent[]): Promise<void> {
    for (const { id, changes } of guests) {
      await waitFor(() => reasonsOf(read(), id).includes(String(changes)), {
        what: () => `change ${changes} of ${id}; the stream began with ${beginningsIn(read()).join()}\n${logs()}`,
      })
      const all = Array.from({ length: changes }, (_, index) => String(index + 1))
      expect(reasonsOf(read(), id), beginningsIn(read()).join() + logs()).to.deep.equal(all)
    }
    const types = new Set(read().map(({ event, data }) => data.type ?? event))
    expect(
      [...types].filter((type) => !possible.has(type)),
      logs(),
    ).to.deep.equal([])
  }

  it('contains each event exactly once if the client alternates between the gateways', async () => {
    const witnesses = [await stream(group.members[0]!), await stream(group.members[1]!)]
    let current = await stream(group.members[0]!)
    const received: ReceivedEvent[] = []
    const changing = changeGuests(() => witnesses)
    for (let count = 0; count < switches; count++) {
      const begun = received.length
      await waitFor(() => received.length + current.events.length > begun + 5, { what: 'some events' })
      await delay(count % 7)
      received.push(...current.events)
      current.close()
      current = await stream(group.members[(count + 1) % 2]!, lastIdOf(received))
    }
    const guests = await changing.stop()
    await expectAll(guests, () => [...received, ...current.events])
  })

  it('contains each event exactly once if the client’s gateway is killed', async () => {
    const [first, second] = group.members as [GroupMember, GroupMember]
    const witnesses = [await stream(second), await stream(first)]
    const former = await stream(first)
    const changing = changeGuests(() => witnesses)
    await waitFor(() => former.events.length > 100, { what: 'some events' })
    await first.process.kill()
    witnesses.pop()
    await waitFor(() => former.closed, { what: 'the end of the stream' })
    const resumed = await stream(second, lastIdOf(former.events))
    await waitFor(() => resumed.events.length > 50, { what: 'more events' })
    await expectAll(await changing.stop(), () => [...former.events, ...resumed.events])
    first.process.start()
    await first.process.ready()
    for (const index of hostIds.keys()) await online(first, index)
  })

  it('contains each event exactly once if the client returns to its killed and restarted gateway', async () => {
    const [first, second] = group.members as [GroupMember, GroupMember]
    const witnesses = [await stream(second)]
    const changing = changeGuests(() => witnesses)
    const former = await stream(second)
    await waitFor(() => former.events.length > 20, { what: 'some events' })
    await first.process.kill()
    await waitFor(() => former.events.length > 60, { what: 'events while the first gateway does not run' })
    first.process.start()
    await first.process.ready()
    for (const index of hostIds.keys()) await online(first, index)
    await waitFor(() => former.events.length > 100, { what: 'events while both gateways run' })
    const received = [...former.events]
    former.close()
    const resumed = await stream(first, lastIdOf(received))
    await waitFor(() => resumed.events.length > 50, { what: 'more events' })
    await expectAll(await changing.stop(), () => [...received, ...resumed.events])
  })

  const typesIn = ({ events }: EventStream, kind: string): (string | undefined)[] =>
    events.flatMap(({ event, data }) => (event === kind ? [data.type] : []))

  it('contains events about new and deleted containers only once, even for keys bound to the containers', async () => {
    const [first, second] = group.members as [GroupMember, GroupMember]
    const [agent] = agents as [LabAgent]
    const [own, other] = [70, 71].map((id) => agent.addGuest({ id, uuid: uuidOf(id), name: `late-${id}` }))
    const witnesses = await Promise.all(group.members.map((member) => stream(member)))
    await waitFor(async () => (await first.request('GET', '/containers/71')).status === 200, { what: 'the guests' })
    const body = { name: 'bound', scopes: ['*'], container_uuids: [own!.uuid] }
    const { key } = (await first.request('POST', '/api-keys', { body })).body.data
    const [all, bound] = [await stream(first), await stream(first, '', key)]
    await first.request('POST', '/containers/70/stop')
    for (const { data } of await Promise.all([all, bound].map((from) => from.type('task.done'))))
      expect(data.data?.['container_name']).to.equal('late-70')
    const ids = [all, bound].map(({ events }) => lastIdOf(events))
    for (const listening of [all, bound]) listening.close()
    for (const { uuid } of [own!, other!]) agent.removeGuest(uuid)
    const added = agent.addGuest({ id: 72, uuid: uuidOf(72), name: 'late-72' })
    await Promise.all(witnesses.map((witness) => waitFor(() => typesIn(witness, 'guest').includes('guest.created'))))
    const [allResumed, boundResumed] = [await stream(second, ids[0]), await stream(second, ids[1], key)]
    for (const listening of [allResumed, boundResumed]) await listening.type('guest.removed')
    await allResumed.type('guest.created')
    expect(typesIn(allResumed, 'guest')).to.deep.equal(['guest.removed', 'guest.removed', 'guest.created'])
    expect(typesIn(boundResumed, 'guest')).to.deep.equal(['guest.removed'])
    expect([allResumed, boundResumed].flatMap((from) => typesIn(from, 'task'))).to.deep.equal([])
    agent.removeGuest(added.uuid)
  })

  it('contains each change of a host and of its connection exactly once', async () => {
    const [first, second] = group.members as [GroupMember, GroupMember]
    const [agent] = agents as [LabAgent]
    const witnesses = await Promise.all(group.members.map((member) => stream(member)))
    const seen = (type: string) => Promise.all(witnesses.map((witness) => witness.type(type)))
    const draining = (value: boolean) => first.request('PATCH', `/hosts/${hostIds[0]}`, { body: { draining: value } })
    const one = await stream(first)
    await draining(true)
    await agent.stop()
    await seen('host.offline')
    await one.type('host.offline')
    one.close()
    const two = await stream(second, lastIdOf(one.events))
    await draining(false)
    await two.type('host.updated')
    two.close()
    await agent.resume()
    await seen('host.online')
    const three = await stream(first, lastIdOf(two.events))
    await three.type('guest.host')
    await draining(true)
    await three.type('host.updated')
    expect([one, two, three].map((from) => typesIn(from, 'host'))).to.deep.equal([
      ['host.updated', 'host.offline'],
      ['host.updated'],
      ['host.online', 'host.updated'],
    ])
    await draining(false)
  })

  it('contains a reset event if the gateway of the last event is unknown', async () => {
    const [first] = group.members as [GroupMember]
    const unknown = await stream(first, 'ffffffffffff.5')
    expect(unknown.events[0]?.event).to.equal('reset')
  })
})
