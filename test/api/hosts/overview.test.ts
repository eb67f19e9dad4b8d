import { expect } from 'chai'
import { hostname, release } from 'node:os'
import type { Body } from '../../support/body.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the API for the overview and the tasks of a fleet', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    await gateway.fleet.addGuest({ name: 'runs' })
    await gateway.fleet.addGuest({ name: 'stopped', status: 'stopped' })
    await gateway.fleet.addGuest({ name: 'elsewhere' }, 'host-b')
  })
  after(() => gateway.close())

  const data = async (path: string) => (await gateway.request('GET', path)).body.data as never

  it('shows the numbers of containers and hosts, either for the fleet or for one host', async () => {
    const all = { running: 2, stopped: 1, total_containers: 3, unknown: 0, hosts: 2, hosts_online: 2 }
    expect(await data('/dashboard')).to.deep.equal(all)
    expect(await data('/dashboard?host_id=host-b')).to.include({ running: 1, stopped: 0, hosts: 1 })
    await gateway.fleet.setHostState('host-b', 'offline')
    expect(await data('/dashboard')).to.include({
      running: 1,
      unknown: 1,
      total_containers: 3,
      hosts_online: 1,
    })
    await gateway.fleet.setHostState('host-b', 'online')
  })

  it('shows the version of the gateway to every caller', async () => {
    const key = await gateway.makeKey({ scopes: ['task:read'] })
    const { status, body } = await gateway.request('GET', '/version', { key })
    expect([status, body.data]).to.deep.equal([200, { version: '0.0.0-test' }])
  })

  it('shows the report of the given host, or of the first online host', async () => {
    const info = (await data('/host-info')) as Record<'cpu' | 'ram', Record<string, number>>
    expect(info).to.include({ host_id: 'host-a', online: true })
    expect(info.cpu['cores']).to.equal(8)
    expect(info.cpu['usage_pct']).to.be.within(0, 100)
    const { total_mb: total = 0, used_mb: used = 0, free_mb: free } = info.ram
    expect(used).to.be.within(1, total)
    expect(free).to.equal(total - used)
    expect(await data('/host-info?host_id=host-b')).to.include({ host_id: 'host-b' })
    expect(await data('/host-report')).to.deep.include({
      host_id: 'host-a',
      host: { hostname: hostname(), kernel: release(), kvm: false, kvm_acceleration: '', kvm_reason: '' },
    })
    expect(await data('/host-report')).to.deep.include({ summary: { status: 'ok', warnings: 0 } })
    const unknown = await gateway.request('GET', '/host-info?host_id=nowhere')
    expect([unknown.status, unknown.body.details.field]).to.deep.equal([400, 'host_id'])
    await gateway.fleet.setHostState('host-a', 'offline')
    expect(await data('/host-info')).to.include({ host_id: 'host-b' })
    expect(await data('/host-report?host_id=host-a')).to.deep.include({
      summary: { status: 'offline', warnings: 0 },
    })
    await gateway.fleet.setHostState('host-a', 'online')
  })

  it('shows no warnings to keys bound to containers, because warnings can name other containers', async () => {
    const { uuid } = await gateway.fleet.addGuest()
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [uuid] })
    await gateway.fleet.warn('host-a', 'guest theirs clashes with another')
    for (const [path, of] of [
      ['/host-report', (data: Body): Body => data],
      ['/hosts/host-a', (data: Body): Body => data],
      ['/hosts', (data: Body): Body => data[0]],
    ] as const) {
      expect(of((await gateway.request('GET', path)).body.data).warnings, path).to.have.length(1)
      expect(of((await gateway.request('GET', path, { key })).body.data).warnings, path).to.deep.equal([])
    }
    await gateway.fleet.warn('host-a')
  })

  it('lists a template only once, even if several hosts have it', async () => {
    const templates = (await data('/templates')) as { id: string; available: boolean }[]
    expect(templates.filter(({ available }) => available).map(({ id }) => id)).to.deep.equal(['debian-12'])
    expect(new Set(templates.map(({ id }) => id)).size).to.equal(templates.length)
    expect(templates.find(({ id }) => id === 'debian-12')).to.include({
      id: 'debian-12',
      distro: 'debian',
      arch: 'amd64',
      type: 'lxc',
      available: true,
    })
    expect(await data('/templates?distro=gentoo')).to.deep.equal([])
  })

  it('lists tasks with the newest first, and can filter the list', async () => {
    const post = async (path: string) => (await gateway.request('POST', path)).body.data.task_id as string
    const first = await post('/containers/runs/stop')
    const second = await post('/containers/stopped/start')
    const tasks = (await data('/tasks')) as { task_id: string; id: string; type: string }[]
    expect(tasks.map((task) => task.task_id)).to.deep.equal([second, first])
    expect(tasks[0]).to.include({
      id: second,
      type: 'start',
      container_name: 'stopped',
      progress: 0,
      error: '',
    })
    expect(tasks[0]).to.include({ started_at: '', user: 'api:admin', host_id: 'host-a' })
    const filtered = (await data('/tasks?action=stop&container_name=runs')) as { task_id: string }[]
    expect(filtered.map((task) => task.task_id)).to.deep.equal([first])
    expect(((await data('/tasks?status=done')) as object[]).length).to.equal(0)
    expect((await gateway.request('GET', '/tasks?status=nonsense')).status).to.equal(400)
  })

  it('can cancel a task that has not begun, and remove a task that has ended', async () => {
    const id = (await gateway.request('POST', '/containers/runs/restart')).body.data.task_id as string
    expect((await gateway.request('DELETE', `/tasks/${id}`)).body).to.include({
      success: true,
      message: 'task canceled',
    })
    expect(await data(`/tasks/${id}`)).to.include({ status: 'canceled' })
    expect((await gateway.request('DELETE', `/tasks/${id}`)).body).to.include({ message: 'task removed' })
    expect((await gateway.request('GET', `/tasks/${id}`)).status).to.equal(404)
    expect((await gateway.request('DELETE', `/tasks/${id}`)).status).to.equal(404)
  })

  it('refuses the removal of a running task', async () => {
    const { faults } = gateway.fleet.agentOf('host-b').host
    let release = (): void => undefined
    faults.stop = () => new Promise((done) => (release = done))
    const { task_id: id } = (await gateway.request('POST', '/containers/elsewhere/stop')).body.data
    await gateway.fleet.work('host-b')
    await waitFor(async () => ((await data(`/tasks/${id}`)) as { status: string }).status === 'running')
    const running = await gateway.request('DELETE', `/tasks/${id}`)
    expect([running.status, running.body.code]).to.deep.equal([409, 'task_running'])
    release()
    await waitFor(async () => ((await data(`/tasks/${id}`)) as { status: string }).status === 'done')
  })

  it('can find, cancel and remove a task that is too old for the list of tasks', async () => {
    const id = (await gateway.request('POST', '/containers/runs/restart')).body.data.task_id as string
    gateway.fleet.unlistOperation(id)
    expect(((await data('/tasks')) as { task_id: string }[]).map((task) => task.task_id)).not.to.include(id)
    expect(await data(`/tasks/${id}`)).to.include({ task_id: id, status: 'pending', container_name: 'runs' })
    expect((await gateway.request('DELETE', `/tasks/${id}`)).body).to.include({ message: 'task canceled' })
    expect(await data(`/tasks/${id}`)).to.include({ status: 'canceled' })
    expect((await gateway.request('DELETE', `/tasks/${id}`)).body).to.include({ message: 'task removed' })
    expect((await gateway.request('GET', `/tasks/${id}`)).status).to.equal(404)
  })

  it('answers 503 to requests for a host’s report if there are no hosts', async () => {
    const other = await startTestGateway()
    await other.fleet.removeHosts()
    expect((await other.request('GET', '/dashboard')).body.data).to.include({ hosts: 0, total_containers: 0 })
    for (const path of ['/host-info', '/host-report']) {
      const { status, body } = await other.request('GET', path)
      expect([status, body.code]).to.deep.equal([503, 'host_offline'])
    }
    await other.close()
  })
})
