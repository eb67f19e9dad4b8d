import { randomBytes, randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { expect } from 'chai'
import { ImageServer, sha256Of } from '../support/image-server.js'
import type { LabAgent } from '../support/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

type Row = Record<string, unknown>

const megabyte = randomBytes(1_000_000)
const guestBody = { ram_mb: 64, vcpu: 0.1, disk_gb: 1, start: false }

describe('images over HTTP', function () {
  this.timeout(120_000)
  let gateway: TestGateway
  let agent: LabAgent
  let server: ImageServer

  before(async () => {
    server = await ImageServer.start()
    gateway = await startTestGateway({ agentConfig: { images: server.settings } })
    await gateway.fleet.work('host-a')
    agent = gateway.fleet.agentOf('host-a')
    server.add('alpine.tar.xz', megabyte)
    server.offered.push({ distro: 'alpine', release: '3.22', file: 'alpine.tar.xz' })
    server.offered.push({ distro: 'fedora', release: '43', file: 'alpine.tar.xz', sha256: 'ab'.repeat(32) })
  })
  after(async () => {
    await gateway.close()
    await server.close()
  })
  afterEach(async () => {
    server.manners = {}
    for (const name of Object.keys(agent.host.faults)) delete agent.host.faults[name as 'make']
    await waitFor(async () => (await rows()).every(({ downloading }) => downloading === false), {
      what: 'no download',
    })
    for (const { id } of (await rows()).filter((row) => row.downloaded === true && row.id !== 'debian-12'))
      expect((await remove(id as string)).status).to.equal(200)
    for (const { id } of (await rows()).filter(({ enabled }) => enabled === false)) await toggle(id, true)
  })

  const rows = async (query = ''): Promise<Row[]> =>
    (await gateway.request('GET', `/images${query}`)).body.data as Row[]
  const row = async (id: string): Promise<Row> => (await rows()).find((found) => found.id === id)!
  const enabledIds = async (query = ''): Promise<unknown[]> =>
    ((await gateway.request('GET', `/images/enabled${query}`)).body.data as Row[]).map(({ id }) => id)
  const send = (path: string, body: unknown, options = {}): Promise<Reply> =>
    gateway.request('POST', path, { body, ...options })
  const download = (id: string, options = {}): Promise<Reply> =>
    send('/images/download', { template_id: id }, options)
  const cancel = (id: string): Promise<Reply> => send('/images/cancel', { template_id: id })
  const remove = (id: string): Promise<Reply> => gateway.request('DELETE', `/images/delete?template_id=${id}`)
  const toggle = (id: unknown, enabled: boolean): Promise<Reply> =>
    gateway.request('PUT', '/images/toggle', { body: { template_id: id, enabled } })
  const taskOf = (reply: Reply): string => reply.body.tasks[0].task_id as string
  const ended = (task: string): Promise<Row> =>
    waitFor(
      async () => {
        const { data } = (await gateway.request('GET', `/tasks/${task}`)).body
        return data.finished_at === '' ? undefined : (data as Row)
      },
      { what: 'the task to end' },
    )
  const downloaded = async (id: string): Promise<Row> => {
    const reply = await download(id)
    expect(reply.status, reply.text).to.equal(202)
    return ended(taskOf(reply))
  }
  const left = (): string[] => readdirSync(`${agent.stateDir}/downloads`)
  const stalled = async (id: string, bytes = 400_000): Promise<string> => {
    server.manners = { stallAfter: bytes }
    const reply = await download(id)
    await waitFor(async () => (await row(id)).received_bytes === bytes, {
      what: 'the download in the middle',
    })
    return taskOf(reply)
  }

  describe('lists', () => {
    it('show the catalogue, by type and by what is there', async () => {
      const all = await rows()
      for (const id of [
        ...['debian-12', 'debian-13', 'ubuntu-22.04', 'ubuntu-24.04', 'alpine-3.22', 'rocky-9', 'alma-9'],
        ...['fedora-43', 'arch', 'opensuse-tumbleweed', 'debian-12-kvm', 'ubuntu-24.04-kvm'],
      ])
        expect(all.map((found) => found.id)).to.include(id)
      expect(all.find(({ id }) => id === 'debian-12')).to.deep.include({
        ...{ name: 'Debian 12', type: 'lxc', downloaded: true, enabled: true, downloading: false },
        ...{ progress: 100, size_bytes: 300_000_000, host_id: 'host-a', source: 'built', supported: true },
      })
      const kvm = await rows('?type=kvm')
      expect(kvm.length).to.be.greaterThan(5)
      for (const found of kvm) expect(found).to.include({ supported: false, downloaded: false })
      expect((await rows('?downloaded=true')).map(({ id }) => id)).to.deep.equal(['debian-12'])
      for (const found of all) expect(found.type, String(found.id)).to.be.oneOf(['lxc', 'kvm'])
      expect(kvm.filter((found) => 'kind' in found)).to.deep.equal([])
      const rescue = await rows('?kind=rescue')
      expect(rescue.length).to.be.greaterThan(0)
      for (const found of rescue) expect(found).to.include({ type: 'kvm', kind: 'rescue' })
      expect(await rows('?type=rescue'), 'as older clients ask').to.deep.equal(rescue)
      expect(await rows('?type=lxc&kind=rescue')).to.deep.equal([])
      expect((await gateway.request('GET', '/images?host_id=nothing')).status).to.equal(400)
    })

    it('of enabled ones have those that are there and may be used', async () => {
      expect(await enabledIds()).to.deep.equal(['debian-12'])
      expect(await enabledIds('?type=kvm')).to.deep.equal([])
      const { data } = (await gateway.request('GET', '/images/enabled?type=lxc')).body
      expect(Object.keys(data[0] as Row)).to.deep.equal([
        ...['id', 'name', 'distro', 'release', 'arch', 'variant', 'description', 'type'],
      ])
      await toggle('debian-12', false)
      expect(await enabledIds()).to.deep.equal([])
      expect((await gateway.request('GET', '/images/enabled?type=vm')).status).to.equal(400)
    })

    it('of templates leave out what no host can use', async () => {
      const ids = ((await gateway.request('GET', '/templates')).body.data as Row[]).map(({ id }) => id)
      expect(ids).to.include.members(['debian-12', 'alpine-3.22'])
      expect(ids).not.to.include('debian-12-kvm')
    })
  })

  describe('a download', () => {
    it('is a task, shows how far it is, and is there at its end', async () => {
      const task = await stalled('alpine-3.22')
      const shown = await row('alpine-3.22')
      expect(shown).to.include({ downloading: true, downloaded: false, total_bytes: 1_000_000 })
      expect(shown.progress).to.be.within(20, 60)
      const { data } = (await gateway.request('GET', `/tasks/${task}`)).body
      expect(data).to.include({ action: 'image_download', status: 'running', image_id: 'alpine-3.22' })
      expect(data.stage).to.match(/^downloading: 0\.4 of 1\.0 MB/)
      expect(data.progress).to.be.within(20, 60)
      expect((await download('alpine-3.22')).body.code).to.equal('task_running')
      server.manners = {}
      expect((await cancel('alpine-3.22')).status).to.equal(200)
      expect(await downloaded('alpine-3.22')).to.include({ status: 'done', progress: 100 })
      expect(await row('alpine-3.22')).to.include({
        downloaded: true,
        progress: 100,
        received_bytes: 0,
        error: '',
      })
      expect(await enabledIds()).to.deep.equal(['alpine-3.22', 'debian-12'])
      expect(left()).to.deep.equal([])
      const again = await download('alpine-3.22')
      expect([again.status, again.body.message]).to.deep.equal([200, 'the image is there'])
    })

    it('is one, however often its request is repeated', async () => {
      const headers = { 'idempotency-key': randomUUID() }
      const [first, again] = [
        await download('alpine-3.22', { headers }),
        await download('alpine-3.22', { headers }),
      ]
      expect(taskOf(again)).to.equal(taskOf(first))
      expect((await ended(taskOf(first))).status).to.equal('done')
    })

    it('is one, however many ask at once', async () => {
      server.manners = { stallAfter: 400_000 }
      const replies = await Promise.all(Array.from({ length: 20 }, () => download('alpine-3.22')))
      const statuses = replies.map(({ status }) => status).sort()
      expect(statuses).to.deep.equal([202, ...Array.from({ length: 19 }, () => 409)])
      expect((await cancel('alpine-3.22')).status).to.equal(200)
      expect((await ended(taskOf(replies.find(({ status }) => status === 202)!))).status).to.equal('canceled')
    })

    it('goes on where its connection was cut', async () => {
      server.manners = { cutAfter: 300_000 }
      server.asked.length = 0
      expect((await downloaded('alpine-3.22')).status).to.equal('done')
      expect(server.asked.filter((asked) => asked.includes('bytes='))).to.have.length.of.at.least(2)
    })

    it('that is canceled in the middle leaves nothing, and can be begun anew', async () => {
      const task = await stalled('alpine-3.22')
      expect(left()).not.to.deep.equal([])
      expect((await cancel('alpine-3.22')).status).to.equal(200)
      expect((await ended(task)).status).to.equal('canceled')
      expect(await row('alpine-3.22')).to.include({
        downloading: false,
        downloaded: false,
        progress: 0,
        error: '',
      })
      expect(left()).to.deep.equal([])
      await waitFor(() => server.stalled === 0, { what: 'its connection to end' })
      const late = await cancel('alpine-3.22')
      expect([late.status, late.body.code]).to.deep.equal([409, 'invalid_state'])
      server.manners = {}
      expect((await downloaded('alpine-3.22')).status).to.equal('done')
    })

    it('is canceled as a task, too', async () => {
      const task = await stalled('alpine-3.22')
      expect((await gateway.request('DELETE', `/tasks/${task}`)).status).to.equal(200)
      expect((await ended(task)).status).to.equal('canceled')
      expect(left()).to.deep.equal([])
    })

    it('with another checksum is never downloaded, and leaves nothing', async () => {
      const task = await downloaded('fedora-43')
      expect(task.status).to.equal('failed')
      expect(task.error).to.contain('SHA-256')
      expect(await row('fedora-43')).to.include({
        downloaded: false,
        downloading: false,
        error: 'checksum_mismatch',
      })
      expect(await enabledIds()).not.to.include('fedora-43')
      expect(left()).to.deep.equal([])
    })

    it('that breaks off again and again fails, and leaves nothing', async () => {
      server.manners = { cutAfter: 0 }
      expect((await downloaded('alpine-3.22')).status).to.equal('failed')
      expect(await row('alpine-3.22')).to.include({ downloaded: false, error: 'download_failed' })
      expect(left()).to.deep.equal([])
    })

    it('of what the server has not, or of a server that is away, fails and says so', async () => {
      expect((await downloaded('arch')).status).to.equal('failed')
      expect((await row('arch')).error).to.equal('release_missing')
      expect(left()).to.deep.equal([])
    })

    it('is refused where there is no room', async () => {
      const { pool } = agent.host
      agent.host.pool = { ...pool, usedBytes: pool.totalBytes }
      const { status, body } = await download('alpine-3.22')
      expect([status, body.code]).to.deep.equal([409, 'resource_exhausted'])
      agent.host.pool = { ...pool, usedBytes: pool.totalBytes - 1024 ** 3 * 10 - 3_000_000 }
      expect((await downloaded('alpine-3.22')).status).to.equal('failed')
      agent.host.pool = pool
      expect((await row('alpine-3.22')).error).to.equal('storage_full')
    })

    it('is finished by the next agent where one is gone in the middle', async () => {
      const task = await stalled('alpine-3.22')
      server.manners = {}
      server.asked.length = 0
      await gateway.fleet.setHostState('host-a', 'offline')
      await gateway.fleet.setHostState('host-a', 'online')
      expect((await ended(task)).status).to.equal('done')
      expect(server.asked.filter((asked) => asked.includes('bytes=400000-'))).to.have.length(1)
      expect(await row('alpine-3.22')).to.include({ downloaded: true, downloading: false })
      expect(left()).to.deep.equal([])
    })

    it('that nobody finishes is swept by the next agent', async () => {
      const task = await stalled('alpine-3.22')
      await gateway.fleet.setHostState('host-a', 'offline')
      agent.journal(({ changes: { db } }) =>
        db.prepare("UPDATE operations SET status = 'failed', finished_at_ms = 1 WHERE id = ?").run(task),
      )
      await gateway.fleet.setHostState('host-a', 'online')
      expect(await row('alpine-3.22')).to.include({ downloaded: false, downloading: false })
      expect(left()).to.deep.equal([])
    })

    for (const [what, id, status, code] of [
      ['what is not known', 'nothing', 404, 'not_found'],
      ['what the host cannot use', 'debian-12-kvm', 400, 'unsupported'],
      ['no id', undefined, 400, 'missing_field'],
      ['a path', '../../etc', 400, 'invalid_field'],
    ] as const)
      it(`is refused for ${what}`, async () => {
        const reply = await send('/images/download', { template_id: id })
        expect([reply.status, reply.body.code]).to.deep.equal([status, code])
      })
  })

  describe('guests', () => {
    const create = (name: string, template: string): Promise<Reply> =>
      send('/containers', { ...guestBody, name, template_id: template })

    it('are made from an image that is downloaded', async () => {
      await downloaded('alpine-3.22')
      const { status, body } = await create('from-alpine', 'alpine-3.22')
      expect(status).to.equal(202)
      expect((await ended(body.data.task_id as string)).status).to.equal('done')
      expect((await remove('alpine-3.22')).status).to.equal(200)
      const { data } = (await gateway.request('GET', '/containers/from-alpine')).body
      expect(data).to.include({ status: 'stopped', template: 'alpine-3.22' })
    })

    it('are made from one that has to be downloaded first; meanwhile it is in use', async () => {
      server.manners = { stallAfter: 400_000 }
      const { body } = await create('waits', 'alpine-3.22')
      await waitFor(async () => (await row('alpine-3.22')).received_bytes === 400_000, {
        what: 'the download',
      })
      for (const reply of [await cancel('alpine-3.22'), await remove('alpine-3.22')])
        expect([reply.status, reply.body.code]).to.deep.equal([409, 'image_in_use'])
      expect((await download('alpine-3.22')).body.code).to.equal('task_running')
      server.manners = {}
      await gateway.fleet.setHostState('host-a', 'offline') // ends the connection that stands still
      await gateway.fleet.setHostState('host-a', 'online')
      expect((await ended(body.data.task_id as string)).status).to.equal('done')
    })

    it('are not made where their image cannot be had, and nothing is left', async () => {
      server.manners = { cutAfter: 0 }
      const { body } = await create('never', 'alpine-3.22')
      expect((await ended(body.data.task_id as string)).status).to.equal('failed')
      expect((await gateway.request('GET', '/containers/never')).status).to.equal(404)
      expect(await row('alpine-3.22')).to.include({ downloading: false, error: 'download_failed' })
      expect(left()).to.deep.equal([])
    })

    it('keep an image while they are made', async () => {
      await downloaded('alpine-3.22')
      let go = (): void => undefined
      agent.host.faults.clone = () => new Promise((resolve) => (go = resolve))
      const { body } = await create('keeps', 'alpine-3.22')
      await waitFor(async () => (await row('alpine-3.22')) && agent.domain.engine.stats().running > 0)
      const reply = await remove('alpine-3.22')
      expect([reply.status, reply.body.code]).to.deep.equal([409, 'image_in_use'])
      expect((await row('alpine-3.22')).downloaded).to.equal(true)
      await waitFor(() => {
        go()
        return agent.domain.engine.stats().running === 0
      })
      expect((await ended(body.data.task_id as string)).status).to.equal('done')
      expect((await remove('alpine-3.22')).status).to.equal(200)
    })

    it('are not made from one that is disabled, nor get a new disk of it', async () => {
      expect(
        (await ended((await create('before', 'debian-12')).body.data.task_id as string)).status,
      ).to.equal('done')
      expect((await toggle('debian-12', false)).status).to.equal(200)
      expect(await row('debian-12')).to.include({ enabled: false, downloaded: true })
      const refused = [
        await create('after', 'debian-12'),
        await send('/containers/before/reinstall', { template_id: 'debian-12' }),
        await send('/batch-create', { containers: [{ ...guestBody, name: 'x', template_id: 'debian-12' }] }),
        await send('/batch-action', {
          action: 'reinstall',
          containers: ['before'],
          template_id: 'debian-12',
        }),
      ]
      for (const { status, body } of refused)
        expect([status, body.code]).to.deep.equal([409, 'image_disabled'])
      expect((await send('/containers/before/start', [])).status).to.equal(202)
      await toggle('debian-12', true)
      expect((await create('after', 'debian-12')).status).to.equal(202)
    })

    it('are refused by the agent, too', async () => {
      agent.domain.imageAdmin.setEnabled('debian-12', false)
      expect(() => agent.domain.images.checkUsable('debian-12', 'lxc')).to.throw(/disabled/)
      expect(() => agent.domain.images.checkUsable('debian-12-kvm', 'lxc')).to.throw(/kvm/)
      expect(() => agent.domain.images.checkUsable('nothing', 'lxc')).to.throw(/no template/)
    })
  })

  describe('deletion', () => {
    it('is idempotent, and refused for what is not known', async () => {
      await downloaded('alpine-3.22')
      expect((await remove('alpine-3.22')).body.message).to.equal('image deleted')
      expect(await row('alpine-3.22')).to.include({ downloaded: false, size_bytes: 0, enabled: true })
      const body = { template_id: 'alpine-3.22' }
      const again = await gateway.request('DELETE', '/images/delete', { body })
      expect([again.status, again.body.message]).to.deep.equal([200, 'the image was not there'])
      expect((await remove('nothing')).status).to.equal(404)
      expect((await gateway.request('DELETE', '/images/delete')).body.code).to.equal('missing_field')
    })

    it('is refused while the image is downloaded', async () => {
      await stalled('alpine-3.22')
      expect((await remove('alpine-3.22')).body.code).to.equal('task_running')
      expect((await cancel('alpine-3.22')).status).to.equal(200)
    })
  })

  describe('custom images', () => {
    const custom = (fields: object = {}): object => ({
      ...{ type: 'lxc', name: 'My Alpine', description: 'with tools', distro: 'alpine', release: '3.22' },
      ...{ arch: 'x86_64', url: `${server.url}/custom.tar.gz`, sha256: sha256Of(megabyte) },
      ...fields,
    })
    const add = (fields: object = {}, options = {}): Promise<Reply> =>
      send('/images/custom', custom(fields), options)
    const drop = (id: string): Promise<Reply> => gateway.request('DELETE', `/images/custom?id=${id}`)
    before(() => void server.add('custom.tar.gz', megabyte))
    afterEach(async () => {
      for (const { id } of await rows('?custom=true')) expect((await drop(id as string)).status).to.equal(200)
    })

    it('are added, downloaded, used and removed; guests made from them live on', async () => {
      const { status, body } = await add()
      expect(status).to.equal(201)
      const { id } = body.data as { id: string }
      expect(id).to.match(/^custom-my-alpine-[0-9a-f]{12}$/)
      expect(body.data).to.include({
        ...{ type: 'lxc', name: 'My Alpine', arch: 'amd64', variant: 'default', custom: true, source: 'url' },
        ...{
          downloaded: false,
          enabled: true,
          sha256: sha256Of(megabyte),
          url: `${server.url}/custom.tar.gz`,
        },
      })
      expect((await downloaded(id)).status).to.equal('done')
      expect(await enabledIds()).to.include(id)
      const made = await send('/containers', { ...guestBody, name: 'of-custom', template_id: id })
      expect((await ended(made.body.data.task_id as string)).status).to.equal('done')
      expect((await drop(id)).status).to.equal(200)
      expect((await rows()).map((found) => found.id)).not.to.include(id)
      expect(agent.host.images.has(id)).to.equal(false)
      expect((await gateway.request('GET', '/containers/of-custom')).status).to.equal(200)
      expect((await send('/containers', { ...guestBody, name: 'x', template_id: id })).status).to.equal(400)
      expect((await drop(id)).status).to.equal(404)
    })

    it('outlive the agent, and are one for one request', async () => {
      const headers = { 'idempotency-key': randomUUID() }
      const [first, again] = [await add({}, { headers }), await add({}, { headers })]
      expect(again.body.data.id).to.equal(first.body.data.id)
      await gateway.fleet.setHostState('host-a', 'offline')
      await gateway.fleet.setHostState('host-a', 'online')
      expect((await rows('?custom=true')).map(({ id }) => id)).to.deep.equal([first.body.data.id])
    })

    it('are not removed while a guest is made from them', async () => {
      const { id } = (await add()).body.data as { id: string }
      server.manners = { stallAfter: 400_000 }
      const made = await send('/containers', { ...guestBody, name: 'slow', template_id: id })
      await waitFor(async () => (await row(id)).received_bytes === 400_000, { what: 'the download' })
      expect((await drop(id)).body.code).to.equal('image_in_use')
      server.manners = {}
      await gateway.fleet.setHostState('host-a', 'offline')
      await gateway.fleet.setHostState('host-a', 'online')
      expect((await ended(made.body.data.task_id as string)).status).to.equal('done')
    })

    it('of the catalogue are none', async () => {
      expect((await drop('debian-12')).body.code).to.equal('invalid_state')
      expect((await gateway.request('DELETE', '/images/custom')).body.code).to.equal('missing_field')
    })

    for (const [fields, field] of [
      [{ type: 'vm' }, 'type'],
      [{ name: '' }, 'name'],
      [{ name: 'two\nlines' }, 'name'],
      [{ name: 'x'.repeat(101) }, 'name'],
      [{ description: 'a\u2028b' }, 'description'],
      [{ distro: 'a b' }, 'distro'],
      [{ release: '$(id)' }, 'release'],
      [{ variant: '../x' }, 'variant'],
      [{ arch: 'sparc' }, 'arch'],
      [{ arch: 'constructor' }, 'arch'],
      [{ sha256: 'abc' }, 'sha256'],
      [{ sha256: 'zz'.repeat(32) }, 'sha256'],
      [{ os: 'beos' }, 'os'],
      [{ os: 'windows' }, 'os'],
      [{ url: 'ftp://example.org/a' }, 'url'],
      [{ url: 'file:///etc/shadow' }, 'url'],
      [{ url: 'http://user:pw@example.org/a' }, 'url'],
      [{ url: 'http://169.254.169.254/latest' }, 'url'],
      [{ url: 'http://10.0.0.1/a' }, 'url'],
      [{ url: 'http://[::1]/a' }, 'url'],
      [{ url: 'http://2130706434/a' }, 'url'],
      [{ url: `http://example.org/${'a'.repeat(2000)}` }, 'url'],
      [{ url: 'http://example.org/a b' }, 'url'],
    ] as const)
      it(`are refused: ${JSON.stringify(fields).slice(0, 60)}`, async () => {
        const { status, body } = await add(fields)
        expect([status, body.details?.field]).to.deep.equal([400, field])
        expect(await rows('?custom=true')).to.deep.equal([])
      })

    it('need each field', async () => {
      for (const field of ['type', 'name', 'distro', 'release', 'arch', 'url', 'sha256']) {
        const { body } = await add({ [field]: undefined })
        expect([body.code, body.details.field]).to.deep.equal(['missing_field', field])
      }
    })

    it('show where they come from only to those who are not bound to some containers', async () => {
      await add()
      const guest = await gateway.fleet.addGuest()
      const key = await gateway.makeKey({ scopes: ['image:*'], container_uuids: [guest.uuid] })
      const { data } = (await gateway.request('GET', '/images?custom=true', { key })).body
      expect(data).to.have.length(1)
      expect(data[0]).to.include({ url: '', sha256: '' })
      const refused = await send('/images/custom', custom(), { key })
      expect(refused.body.code).to.equal('insufficient_scope')
    })
  })
})
