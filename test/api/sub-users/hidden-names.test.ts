import { expect } from 'chai'
import { EventStream } from '../../support/gateway/event-stream.js'
import { SnapshotLab, type Row } from '../../support/gateway/snapshot-lab.js'
import { SubUserCalls, type Caller, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { waitFor } from '../../support/wait.js'

describe('a sub-user does not see who else manages its container', function () {
  const lab = new SnapshotLab()
  const streams: EventStream[] = []
  let calls: SubUserCalls
  let own: MadeSubUser
  let customer: Caller
  let hidden: string[]

  before(async () => {
    await lab.start()
    await lab.begin()
    calls = new SubUserCalls(lab.gateway)
    const fields = { container_name: lab.guest.name }
    own = await calls.make({ ...fields, username: 'anna' })
    const other = await calls.make({ ...fields, username: 'bruno', permissions: ['container:read', 'container:power'] })
    hidden = ['hedda', 'api:', other.username]
    streams.push(await listen(await calls.headers(await calls.account(own))))
    streams.push(await listen({ 'x-api-key': lab.gateway.adminKey }))
    streams.push(await listen({ 'x-api-key': await boundKey() }))
    customer = await calls.loggedIn(own)
    await actAs(await calls.admin('hedda'), await calls.loggedIn(other))
    for (const stream of streams) await lastTaskIn(stream)
  })
  after(async () => {
    for (const stream of streams) stream.close()
    await lab.close()
  })

  async function listen(headers: Record<string, string>): Promise<EventStream> {
    const stream = await EventStream.open(lab.gateway.url, headers, '?kinds=task')
    await stream.wait(({ event }) => event === 'ready', 'ready')
    return stream
  }
  const boundKey = () => lab.gateway.makeKey({ scopes: ['*'], container_uuids: [lab.guest.uuid] })

  /** Changes the container as an administrator, with an API key, as another sub-user and as the sub-user itself. */
  async function actAs(admin: Caller, other: Caller): Promise<void> {
    await admin('POST', lab.path, { body: {} })
    await lab.gateway.request('POST', `${lab.path}/schedule`, { body: { enabled: true, interval_hours: 24 } })
    const { body } = await other('POST', `/containers/${lab.guest.id}/start`, { body: {} })
    const isDone = () => lab.gateway.fleet.view.findOperation(body.data.task_id as string)?.operation.status === 'done'
    await waitFor(isDone, { what: 'the start' })
    const taken = await customer('POST', lab.path, { body: {} })
    expect([taken.status, taken.body.data.created_by]).to.deep.equal([201, own.username])
  }
  const lastTaskIn = (stream: EventStream) =>
    stream.wait(({ data }) => data.type === 'task.done' && data.data?.['user'] === own.username, 'the last task')
  const usersIn = (stream: EventStream) =>
    stream.events.filter(({ data }) => data.type === 'task.done').map(({ data }) => data.data?.['user'])

  async function read(path: string, ask: Caller = customer): Promise<Row[]> {
    const { status, text, body } = await ask('GET', path)
    expect(status, text).to.equal(200)
    if (ask === customer) for (const name of hidden) expect(text, path).not.to.include(name)
    return body.data as Row[]
  }
  const users = async (path: string, ask?: Caller) => (await read(path, ask)).map(({ user }) => user)
  const everything: Caller = (...request) => lab.gateway.request(...request)

  it('because no account can have a name that stands for others', async () => {
    for (const username of ['provider', 'system']) {
      const { status, body } = await lab.gateway.request('POST', '/sub-user/create', {
        body: { container_name: lab.guest.name, username },
      })
      expect([status, body.code]).to.deep.equal([400, 'invalid_field'])
    }
  })

  it('in tasks, even with a filter', async () => {
    const rows = await read('/tasks')
    expect(rows.map(({ user }) => user)).to.deep.equal([own.username, 'provider', 'provider'])
    for (const { id, user } of rows) expect(await read(`/tasks/${String(id)}`)).to.include({ user })
    expect(await users('/tasks?user=hedda')).to.deep.equal([])
    expect(await users('/tasks?user=provider')).to.deep.equal(['provider', 'provider'])
    expect(await users('/tasks', everything)).to.have.members([own.username, hidden[2], 'hedda'])
  })

  it('in the timeline', async () => {
    const rows = await read(`/containers/${lab.guest.id}/timeline`)
    expect(rows.map(({ user, address }) => [user, address])).to.deep.equal([
      [own.username, '127.0.0.1'],
      ['provider', ''],
      ['provider', ''],
    ])
    const all = await read(`/containers/${lab.guest.id}/timeline`, everything)
    expect(all.map(({ user }) => user)).to.include.members([own.username, hidden[2], 'hedda'])
  })

  it('in snapshots, schedules and backups', async () => {
    const { snapshots, schedule } = (await read(lab.path)) as unknown as { snapshots: Row[]; schedule: Row }
    expect(snapshots.map(({ created_by: name }) => name)).to.deep.equal([own.username, 'provider'])
    expect(schedule).to.include({ created_by: 'provider' })
    expect((await read('/schedules')).map(({ created_by: name }) => name)).to.deep.equal(['provider'])
    for (const path of [`/containers/${lab.guest.id}/backups`, '/backups', '/snapshots'])
      expect((await customer('GET', path)).status, path).to.equal(403)
    const [row] = await read('/schedules', everything)
    expect(row!['created_by']).to.match(/^api:/)
  })

  it('in events', () => {
    const [mine, all, bound] = streams.map(usersIn)
    expect(mine).to.deep.equal(['provider', 'provider', own.username])
    for (const users of [all, bound]) expect(users).to.deep.equal(['hedda', hidden[2], own.username])
    for (const name of hidden) expect(JSON.stringify(streams[0]!.events)).not.to.include(name)
  })

  it('in events that follow a reconnection', async () => {
    const { cookie, ...headers } = await calls.headers(await calls.account(own))
    const first = streams[0]!.events[0]!.id
    const resumed = await EventStream.open(
      lab.gateway.url,
      { ...headers, cookie },
      `?kinds=task&last_event_id=${first}`,
    )
    streams.push(resumed)
    await lastTaskIn(resumed)
    expect(usersIn(resumed)).to.deep.equal(['provider', 'provider', own.username])
  })
})
