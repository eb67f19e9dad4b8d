import { expect } from 'chai'
import { join } from 'node:path'
import type { Body } from '../support/body.js'
import { FleetHost, makeSegment, removeSegment } from '../support/host/fleet-host.js'
import { endLeftGateway, GatewayProcess, type GatewayReply } from '../support/gateway/gateway-process.js'
import { finishDeletions, readInits, readInventory } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const directory = '/var/tmp/btest-two-hosts'
const segment = { bridge: 'btest-f', prefix: '198.18.142' }
const guestCount = 8

interface Row {
  id: number
  uuid: string
  name: string
  status: string
  host_id: string
  ip: string
  ssh_port: number
}

interface Task {
  action: string
  status: string
  error: string
}

/** Uses two real installed agents in separate network namespaces, and one real gateway. */
describe('a gateway with two hosts', function () {
  const hosts = ['fha', 'fhb'].map((name, index) => new FleetHost({ name, index, segment, directory })) as [
    FleetHost,
    FleetHost,
  ]
  const [first, second] = hosts
  const hostIds = new Map<FleetHost, string>()
  let gateway: GatewayProcess
  let another: GatewayProcess | undefined
  let wipe: () => void

  before(async () => {
    for (const name of ['gateway', 'another']) await endLeftGateway(join(directory, name))
    for (const host of hosts) await host.remove()
    wipe = scratchDirectory('btest-two-hosts').wipe
    makeSegment(segment)
    gateway = await GatewayProcess.create(join(directory, 'gateway'), `${segment.prefix}.1`)
    gateway.start()
    await gateway.ready()
    for (const host of hosts) await addHost(host)
    await waitFor(async () => (await hostStates()).every((state) => state === 'online'), {
      what: () => `both online\n${hosts.map((host) => host.logTail()).join('\n')}`,
    })
  })

  after(async () => {
    await gateway?.close()
    await another?.close()
    for (const host of hosts) await host.remove()
    removeSegment(segment)
    wipe?.()
  })

  async function addHost(host: FleetHost): Promise<void> {
    await host.make()
    const body = { name: host.name, address: host.address }
    const { status, body: answer } = await gateway.request('POST', '/hosts', { body })
    expect(status, JSON.stringify(answer)).to.equal(201)
    hostIds.set(host, answer.data.host.id)
    host.join(answer.data.join_token)
    host.start()
  }

  const list = async <R>(path: string): Promise<R[]> =>
    ((await gateway.request('GET', path)).body as { data: R[] }).data
  const hostStates = async (): Promise<string[]> =>
    (await list<{ status: string }>('/hosts')).map(({ status }) => status)
  const listRows = (): Promise<Row[]> => list<Row>('/containers')
  const rowsOf = async (host: FleetHost): Promise<Row[]> =>
    (await listRows()).filter(({ host_id }) => host_id === hostIds.get(host))

  const create = (name: string, fields: object = {}, at = gateway): Promise<GatewayReply> =>
    at.request('POST', '/containers', {
      body: { name, template_id: 'debian-12', vcpu: 0.5, ram_mb: 128, disk_gb: 1, ...fields },
    })

  async function taskDone({ status, body }: GatewayReply, at = gateway): Promise<void> {
    expect(status, JSON.stringify(body)).to.equal(202)
    const { task_id: id } = (body as { data: { task_id: string } }).data
    let task: Task | undefined
    await waitFor(
      async () => {
        task = ((await at.request('GET', `/tasks/${id}`)).body as { data: Task }).data
        return !['pending', 'running'].includes(task.status)
      },
      { what: () => `the end of ${JSON.stringify(task)}` },
    )
    expect(task?.status, JSON.stringify(task)).to.equal('done')
  }

  /** Expects that the host, its agent's journal and the API agree about the guests of the host. */
  async function expectInOrder(host: FleetHost): Promise<void> {
    const { instance } = host
    await finishDeletions(instance)
    await expectSoon(
      () => readInventory(instance),
      () => readExpected(instance),
    )
    const inventory = readInventory(instance)
    const rows = await rowsOf(host)
    expect(rows.map(({ uuid }) => uuid).sort()).to.deep.equal(inventory.subvolumes)
    const running = rows.filter(({ status }) => status === 'running')
    expect(running.map(({ id }) => `${host.name}-${id}`).sort()).to.deep.equal(inventory.monitors)
  }

  it('spreads concurrent creations over both hosts, and creates each container only once', async () => {
    const replies = await Promise.all(
      Array.from({ length: guestCount }, (_, n) => create(`spread-${n}`)).concat(
        Array.from({ length: 4 }, () => create('wanted-by-all')),
      ),
    )
    const taken = replies.filter(({ status }) => status === 409)
    expect(taken).to.have.length(3)
    for (const { body } of taken) expect(body).to.include({ code: 'name_conflict' })
    for (const reply of replies) if (reply.status !== 409) await taskDone(reply)
    const rows = await listRows()
    expect(rows).to.have.length(guestCount + 1)
    expect(rows.map(({ status }) => status)).to.deep.equal(rows.map(() => 'running'))
    for (const field of ['id', 'uuid', 'name'] as const)
      expect(new Set(rows.map((row) => row[field])).size, field).to.equal(rows.length)
    const counts = await Promise.all(hosts.map(async (host) => (await rowsOf(host)).length))
    expect(Math.min(...counts), `spread ${counts.join(' and ')}`).to.be.at.least(guestCount / 2)
    for (const host of hosts) await expectInOrder(host)
  })

  it('shows the running guests of an offline agent as unknown, and still manages the other host', async () => {
    const inits = readInits(first.instance)
    const lost = await rowsOf(first)
    await first.kill()
    await waitFor(async () => (await rowsOf(first)).every(({ status }) => status === 'unknown'), {
      what: 'its guests unknown',
    })
    expect((await rowsOf(first)).map(({ uuid }) => uuid)).to.have.members(lost.map(({ uuid }) => uuid))
    expect((await rowsOf(second)).map(({ status }) => status)).to.not.include('unknown')
    for (const action of ['start', 'stop', 'restart']) {
      const { status, body } = await gateway.request('POST', `/containers/${lost[0]?.id}/${action}`)
      expect([status, body.code], action).to.deep.equal([503, 'host_offline'])
    }
    const refused = await create(lost[0]?.name ?? '')
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'name_conflict'])

    for (let n = 0; n < 3; n++) await taskDone(await create(`meanwhile-${n}`))
    const { id } = (await rowsOf(second)).find(({ name }) => name === 'meanwhile-0') as Row
    for (const action of ['stop', 'start', 'restart'])
      await taskDone(await gateway.request('POST', `/containers/${id}/${action}`))
    await taskDone(await gateway.request('DELETE', `/containers/${id}/delete`))
    await expectInOrder(second)
    expect(readInits(first.instance)).to.deep.equal(inits)
  })

  it('manages a host again when its agent has restarted', async () => {
    const inits = readInits(first.instance)
    first.start()
    await waitFor(async () => (await listRows()).every(({ status }) => status === 'running'), {
      what: () => `all running\n${first.logTail()}`,
    })
    expect(readInits(first.instance)).to.deep.equal(inits)
    await taskDone(await create('afterwards', { host_id: hostIds.get(first) }))
    for (const host of hosts) await expectInOrder(host)
  })

  it('shows the same guests after it was killed, and shows the guests of an offline host as unknown', async () => {
    const rows = await listRows()
    await first.kill()
    await gateway.kill()
    gateway.start()
    await gateway.ready()
    const isAway = (row: Row): boolean => row.host_id === hostIds.get(first)
    const shown = rows.map((row) => (isAway(row) ? { ...row, status: 'unknown' } : row))
    await expectSoon(listRows, () => shown)
    first.start()
    await expectSoon(listRows, () => rows)
  })

  it('refuses creations on a host that has joined another gateway, and shows the guests of this host as unknown', async () => {
    another = await GatewayProcess.create(join(directory, 'another'), `${segment.prefix}.1`)
    another.start()
    await another.ready()
    const { body } = await another.request('POST', '/hosts', {
      body: { name: second.name, address: second.address },
    })
    second.join(body.data.join_token)
    const moved = async (): Promise<Body> => (await another?.request('GET', `/hosts/${body.data.host.id}`))?.body.data
    await waitFor(async () => (await moved())['status'] === 'online', {
      what: () => `online at the other gateway\n${second.logTail()}\n${another?.logTail()}`,
    })
    expect(await moved()).to.include({ lxc: true, containers: (await rowsOf(second)).length })
    expect((await moved())['version']).not.to.equal('')
    const refused = await create('too-late', { host_id: hostIds.get(second) })
    expect([refused.status, refused.body.code]).to.deep.equal([503, 'host_offline'])
    await taskDone(await create('moved', {}, another), another)
    await waitFor(async () => (await rowsOf(second)).every(({ status }) => status === 'unknown'))
  })
})

async function expectSoon<T>(read: () => T | Promise<T>, wanted: () => T): Promise<void> {
  const equal = async (): Promise<boolean> => JSON.stringify(await read()) === JSON.stringify(wanted())
  await waitFor(equal).catch(() => undefined)
  expect(await read()).to.deep.equal(wanted())
}
