import { expect } from 'chai'
import type { Body } from '../../support/body.js'
import type { MemoryHost } from '../../support/memory/memory-host.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const template = { template_id: 'debian-12', ram_mb: 64, vcpu: 0.1, disk_gb: 1 }

/** Tests the boot settings of a container over HTTP, with a simulated host. */
describe('PUT /containers/{id}/boot', () => {
  let gateway: TestGateway
  let host: MemoryHost
  let count = 0
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    host = gateway.fleet.agentOf('host-a').host
  })
  after(() => gateway.close())
  afterEach(() => {
    for (const name of Object.keys(host.faults)) delete host.faults[name as keyof typeof host.faults]
  })

  const put = (name: string, body: object, options: object = {}): Promise<Reply> =>
    gateway.request('PUT', `/containers/${name}/boot`, { body, ...options })
  const ended = (task: string): Promise<string> =>
    waitFor(
      async () => {
        const { body } = await gateway.request('GET', `/tasks/${task}`)
        return body.data.finished_at === '' ? undefined : (body.data.status as string)
      },
      { what: 'task to end' },
    )
  const detail = async (name: string): Promise<Body> => (await gateway.request('GET', `/containers/${name}`)).body.data
  async function make(fields: object = {}): Promise<{ name: string; uuid: string }> {
    const body = { ...template, name: `boot-${++count}`, ...fields }
    const { body: made } = await gateway.request('POST', '/containers', { body })
    expect(await ended(made.data.task_id)).to.equal('done')
    return made.data as { name: string; uuid: string }
  }

  for (const start of [true, false])
    it(`switches a ${start ? 'running' : 'stopped'} guest to rescue mode and back to its disk`, async () => {
      const { name, uuid } = await make({ start })
      expect((await detail(name)).boot).to.deep.equal({ mode: 'disk', image: '' })
      const { status, body } = await put(name, { mode: 'rescue' })
      expect([status, body.data.action]).to.deep.equal([202, 'boot'])
      expect(await ended(body.data.task_id)).to.equal('done')
      expect(await detail(name)).to.deep.include({
        boot: { mode: 'rescue', image: 'debian-12' },
        status: start ? 'running' : 'stopped',
      })
      expect(host.driver.logins.get(`/nowhere/${uuid}.rescue`)).to.deep.equal({
        password: body.data.ssh_password,
      })
      const back = await put(name, { mode: 'disk', image: '' })
      expect(back.body.data.ssh_password).to.equal('')
      expect(await ended(back.body.data.task_id)).to.equal('done')
      expect((await detail(name)).boot).to.deep.equal({ mode: 'disk', image: '' })
      expect(host.rescues.has(uuid)).to.equal(false)
    })

  it('restores the boot settings if the host cannot start the guest in rescue mode', async () => {
    const { name, uuid } = await make()
    let starts = 0
    host.faults.start = (id) => {
      if (id === uuid && ++starts === 1) throw new Error('no')
    }
    const { body } = await put(name, { mode: 'rescue' })
    expect(await ended(body.data.task_id)).to.equal('failed')
    expect(await detail(name)).to.deep.include({ boot: { mode: 'disk', image: '' }, status: 'running' })
    expect([host.rescues.has(uuid), host.driver.running.has(uuid)]).to.deep.equal([false, true])
  })

  it('prevents a password reset and a reinstallation in rescue mode', async () => {
    const { name } = await make()
    expect(await ended((await put(name, { mode: 'rescue' })).body.data.task_id)).to.equal('done')
    const post = (action: string, body: object): Promise<Reply> =>
      gateway.request('POST', `/containers/${name}/${action}`, { body })
    for (const reply of [
      await put(name, { mode: 'rescue' }),
      await post('reset-password', {}),
      await post('reinstall', { template_id: 'debian-12' }),
    ])
      expect([reply.status, reply.body.code]).to.deep.equal([409, 'invalid_state'])
  })

  it('is refused with an invalid mode or image', async () => {
    const fields = { mode: 'disk', image: 'debian-12' }
    for (const [body, field] of [
      [{}, 'mode'],
      [{ mode: 'net' }, 'mode'],
      [fields, 'image'],
      [{ mode: 'cdrom' }, 'image'],
      [{ mode: 'cdrom', image: 'debian-12' }, 'mode'],
      [{ mode: 'rescue', image: '../x' }, 'image'],
      [{ mode: 'rescue', image: 'none' }, 'image'],
    ] as const) {
      const { status, body: answer } = await put((await make({ start: false })).name, body)
      expect([status, answer.details?.field], JSON.stringify(body)).to.deep.equal([400, field])
    }
  })

  it('requires the scope for reinstallations, and access to the container', async () => {
    const { name, uuid } = await make()
    const power = await gateway.makeKey({ scopes: ['container:power'] })
    expect((await put(name, { mode: 'rescue' }, { key: power })).body.code).to.equal('insufficient_scope')
    const bound = await gateway.makeKey({ scopes: ['container:reinstall'], container_uuids: [uuid] })
    const other = await make()
    expect((await put(other.name, { mode: 'rescue' }, { key: bound })).status).to.equal(404)
    expect((await put(name, { mode: 'rescue' }, { key: bound })).status).to.equal(202)
  })
})

describe('custom images of type iso', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
  })
  after(() => gateway.close())

  it('are listed as images of type iso, and not as templates', async () => {
    const body = {
      type: 'iso',
      name: 'Installer',
      distro: 'any',
      release: '1',
      arch: 'amd64',
      url: 'https://images.example.org/any.iso',
      sha256: 'ab'.repeat(32),
    }
    const made = await gateway.request('POST', '/images/custom', { body })
    const { type, kind } = made.body.data
    expect([made.status, type, kind]).to.deep.equal([201, 'kvm', 'iso'])
    const ids = async (path: string): Promise<string[]> =>
      ((await gateway.request('GET', path)).body.data as { id: string }[]).map(({ id }) => id)
    const { id } = made.body.data as { id: string }
    expect(await ids('/images?type=iso')).to.deep.equal([id])
    expect(await ids('/images?type=rescue')).to.deep.equal(['rescue-kvm'])
    expect(await ids('/templates')).to.not.include.members([id])
    const create = { ...template, name: 'of-a-cd', virtualization: 'kvm', template_id: id }
    const refused = await gateway.request('POST', '/containers', { body: create })
    expect(refused.status).to.equal(400)
    const windows = await gateway.request('POST', '/images/custom', { body: { ...body, type: 'tape' } })
    expect([windows.status, windows.body.details.field]).to.deep.equal([400, 'type'])
  })
})
