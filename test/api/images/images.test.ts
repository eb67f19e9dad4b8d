import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import { ImageLab, type ImageRow } from '../../support/gateway/image-lab.js'
import type { ImageServer } from '../../support/guests/image-server.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the image API', function () {
  let lab: ImageLab
  let gateway: TestGateway
  let agent: LabAgent
  let server: ImageServer
  before(async () => {
    lab = await ImageLab.start()
    ;({ gateway, agent, server } = lab)
    server.offered.push({ distro: 'fedora', release: '43', file: 'alpine.tar.xz', sha256: 'ab'.repeat(32) })
  })
  after(() => lab.close())
  afterEach(() => lab.reset())

  describe('when it lists images', () => {
    it('lists the catalogue, filtered by type, kind and download state', async () => {
      const all = await lab.rows()
      for (const id of [
        'debian-12',
        'debian-13',
        'ubuntu-22.04',
        'ubuntu-24.04',
        'alpine-3.22',
        'rocky-9',
        'alma-9',
        'fedora-43',
        'arch',
        'opensuse-tumbleweed',
        'debian-12-kvm',
        'ubuntu-24.04-kvm',
      ])
        expect(all.map((found) => found.id)).to.include(id)
      expect(all.find(({ id }) => id === 'debian-12')).to.deep.include({
        name: 'Debian 12',
        type: 'lxc',
        downloaded: true,
        enabled: true,
        downloading: false,
        progress: 100,
        size_bytes: 300_000_000,
        host_id: 'host-a',
        source: 'built',
        supported: true,
      })
      const kvm = await lab.rows('?type=kvm')
      expect(kvm.length).to.be.greaterThan(5)
      for (const found of kvm) expect(found).to.include({ supported: false, downloaded: false })
      expect((await lab.rows('?downloaded=true')).map(({ id }) => id)).to.deep.equal(['debian-12'])
      for (const found of all) expect(found.type, String(found.id)).to.be.oneOf(['lxc', 'kvm'])
      expect(kvm.filter((found) => 'kind' in found)).to.deep.equal([])
      const rescue = await lab.rows('?kind=rescue')
      expect(rescue.length).to.be.greaterThan(0)
      for (const found of rescue) expect(found).to.include({ type: 'kvm', kind: 'rescue' })
      expect(await lab.rows('?type=rescue'), 'as older clients request it').to.deep.equal(rescue)
      expect(await lab.rows('?type=lxc&kind=rescue')).to.deep.equal([])
      expect((await gateway.request('GET', '/images?host_id=nothing')).status).to.equal(400)
    })

    it('shows images as enabled if they are downloaded and not disabled', async () => {
      expect(await lab.enabledIds()).to.deep.equal(['debian-12'])
      expect(await lab.enabledIds('?type=kvm')).to.deep.equal([])
      const { data } = (await gateway.request('GET', '/images/enabled?type=lxc')).body
      expect(Object.keys(data[0] as ImageRow)).to.deep.equal([
        'id',
        'name',
        'distro',
        'release',
        'arch',
        'variant',
        'description',
        'type',
      ])
      await lab.toggle('debian-12', false)
      expect(await lab.enabledIds()).to.deep.equal([])
      expect((await gateway.request('GET', '/images/enabled?type=vm')).status).to.equal(400)
    })

    it('shows as templates only images that a host can use', async () => {
      const ids = ((await gateway.request('GET', '/templates')).body.data as ImageRow[]).map(({ id }) => id)
      expect(ids).to.include.members(['debian-12', 'alpine-3.22'])
      expect(ids).not.to.include('debian-12-kvm')
    })
  })

  describe('when it downloads an image', () => {
    it('starts a task that shows the progress, and lets guests use the image when the task has ended', async () => {
      const task = await lab.stalled('alpine-3.22')
      const shown = await lab.row('alpine-3.22')
      expect(shown).to.include({ downloading: true, downloaded: false, total_bytes: 1_000_000 })
      expect(shown.progress).to.be.within(20, 60)
      const { data } = (await gateway.request('GET', `/tasks/${task}`)).body
      expect(data).to.include({ action: 'image_download', status: 'running', image_id: 'alpine-3.22' })
      expect(data.stage).to.match(/^downloading: 0\.4 of 1\.0 MB/)
      expect(data.progress).to.be.within(20, 60)
      expect((await lab.download('alpine-3.22')).body.code).to.equal('task_running')
      server.manners = {}
      expect((await lab.cancel('alpine-3.22')).status).to.equal(200)
      expect(await lab.downloaded('alpine-3.22')).to.include({ status: 'done', progress: 100 })
      expect(await lab.row('alpine-3.22')).to.include({
        downloaded: true,
        progress: 100,
        received_bytes: 0,
        error: '',
      })
      expect(await lab.enabledIds()).to.deep.equal(['alpine-3.22', 'debian-12'])
      expect(lab.left()).to.deep.equal([])
      const again = await lab.download('alpine-3.22')
      expect([again.status, again.body.message]).to.deep.equal([200, 'the image is already downloaded'])
    })

    it('starts only one download if the request is repeated', async () => {
      const headers = { 'idempotency-key': randomUUID() }
      const [first, again] = [
        await lab.download('alpine-3.22', { headers }),
        await lab.download('alpine-3.22', { headers }),
      ]
      expect(lab.taskOf(again)).to.equal(lab.taskOf(first))
      expect((await lab.ended(lab.taskOf(first))).status).to.equal('done')
    })

    it('starts only one download if several callers request it at the same time', async () => {
      server.manners = { stallAfter: 400_000 }
      const replies = await Promise.all(Array.from({ length: 20 }, () => lab.download('alpine-3.22')))
      const statuses = replies.map(({ status }) => status).sort()
      expect(statuses).to.deep.equal([202, ...Array.from({ length: 19 }, () => 409)])
      expect((await lab.cancel('alpine-3.22')).status).to.equal(200)
      expect((await lab.ended(lab.taskOf(replies.find(({ status }) => status === 202)!))).status).to.equal('canceled')
    })

    it('continues the download at the same position if the connection is interrupted', async () => {
      server.manners = { cutAfter: 300_000 }
      server.asked.length = 0
      expect((await lab.downloaded('alpine-3.22')).status).to.equal('done')
      expect(server.asked.filter((asked) => asked.includes('bytes='))).to.have.length.of.at.least(2)
    })

    it('leaves nothing behind if the download is canceled, and can start the download again', async () => {
      const task = await lab.stalled('alpine-3.22')
      expect(lab.left()).not.to.deep.equal([])
      expect((await lab.cancel('alpine-3.22')).status).to.equal(200)
      expect((await lab.ended(task)).status).to.equal('canceled')
      expect(await lab.row('alpine-3.22')).to.include({
        downloading: false,
        downloaded: false,
        progress: 0,
        error: '',
      })
      expect(lab.left()).to.deep.equal([])
      await waitFor(() => server.stalled === 0, { what: 'its connection to end' })
      const late = await lab.cancel('alpine-3.22')
      expect([late.status, late.body.code]).to.deep.equal([409, 'invalid_state'])
      server.manners = {}
      expect((await lab.downloaded('alpine-3.22')).status).to.equal('done')
    })

    it('can cancel the download through the task of the download', async () => {
      const task = await lab.stalled('alpine-3.22')
      expect((await gateway.request('DELETE', `/tasks/${task}`)).status).to.equal(200)
      expect((await lab.ended(task)).status).to.equal('canceled')
      expect(lab.left()).to.deep.equal([])
    })

    it('reports a failure and leaves nothing behind if the image has a wrong checksum', async () => {
      const task = await lab.downloaded('fedora-43')
      expect(task.status).to.equal('failed')
      expect(task.error).to.contain('SHA-256')
      expect(await lab.row('fedora-43')).to.include({
        downloaded: false,
        downloading: false,
        error: 'checksum_mismatch',
      })
      expect(await lab.enabledIds()).not.to.include('fedora-43')
      expect(lab.left()).to.deep.equal([])
    })

    it('reports a failure and leaves nothing behind if the connection is interrupted repeatedly', async () => {
      server.manners = { cutAfter: 0 }
      expect((await lab.downloaded('alpine-3.22')).status).to.equal('failed')
      expect(await lab.row('alpine-3.22')).to.include({ downloaded: false, error: 'download_failed' })
      expect(lab.left()).to.deep.equal([])
    })

    it('reports the reason if the release does not exist', async () => {
      expect((await lab.downloaded('arch')).status).to.equal('failed')
      expect((await lab.row('arch')).error).to.equal('release_missing')
      expect(lab.left()).to.deep.equal([])
    })

    it('refuses an image if the pool lacks space for it', async () => {
      const { pool } = agent.host
      agent.host.pool = { ...pool, usedBytes: pool.totalBytes }
      const { status, body } = await lab.download('alpine-3.22')
      expect([status, body.code]).to.deep.equal([409, 'resource_exhausted'])
      agent.host.pool = { ...pool, usedBytes: pool.totalBytes - 1024 ** 3 * 10 - 3_000_000 }
      expect((await lab.downloaded('alpine-3.22')).status).to.equal('failed')
      agent.host.pool = pool
      expect((await lab.row('alpine-3.22')).error).to.equal('storage_full')
    })

    it('continues the download after a restart of the agent', async () => {
      const task = await lab.stalled('alpine-3.22')
      server.manners = {}
      server.asked.length = 0
      await lab.restartAgent()
      expect((await lab.ended(task)).status).to.equal('done')
      expect(server.asked.filter((asked) => asked.includes('bytes=400000-'))).to.have.length(1)
      expect(await lab.row('alpine-3.22')).to.include({ downloaded: true, downloading: false })
      expect(lab.left()).to.deep.equal([])
    })

    it('leaves no files behind if the download has failed and the agent restarts', async () => {
      const task = await lab.stalled('alpine-3.22')
      await gateway.fleet.setHostState('host-a', 'offline')
      agent.journal(({ changes: { db } }) =>
        db.prepare("UPDATE operations SET status = 'failed', finished_at_ms = 1 WHERE id = ?").run(task),
      )
      await gateway.fleet.setHostState('host-a', 'online')
      expect(await lab.row('alpine-3.22')).to.include({ downloaded: false, downloading: false })
      expect(lab.left()).to.deep.equal([])
    })

    for (const [what, id, status, code] of [
      ['an unknown image', 'nothing', 404, 'not_found'],
      ['an image that the host cannot use', 'debian-12-kvm', 400, 'unsupported'],
      ['a missing image id', undefined, 400, 'missing_field'],
      ['a path in place of an image id', '../../etc', 400, 'invalid_field'],
    ] as const)
      it(`refuses ${what}`, async () => {
        const reply = await lab.send('/images/download', { template_id: id })
        expect([reply.status, reply.body.code]).to.deep.equal([status, code])
      })
  })

  describe('when it deletes an image', () => {
    it('accepts a repeated request, and refuses an unknown image', async () => {
      await lab.downloaded('alpine-3.22')
      expect((await lab.remove('alpine-3.22')).body.message).to.equal('image deleted')
      expect(await lab.row('alpine-3.22')).to.include({ downloaded: false, size_bytes: 0, enabled: true })
      const body = { template_id: 'alpine-3.22' }
      const again = await gateway.request('DELETE', '/images/delete', { body })
      expect([again.status, again.body.message]).to.deep.equal([200, 'the image was not downloaded'])
      expect((await lab.remove('nothing')).status).to.equal(404)
      expect((await gateway.request('DELETE', '/images/delete')).body.code).to.equal('missing_field')
    })

    it('refuses an image that is being downloaded', async () => {
      await lab.stalled('alpine-3.22')
      expect((await lab.remove('alpine-3.22')).body.code).to.equal('task_running')
      expect((await lab.cancel('alpine-3.22')).status).to.equal(200)
    })
  })
})
