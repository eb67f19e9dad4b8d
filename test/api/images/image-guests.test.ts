import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import { ImageLab } from '../../support/gateway/image-lab.js'
import { sha256Of } from '../../support/guests/image-server.js'
import type { Reply, TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the image API', function () {
  let lab: ImageLab
  let gateway: TestGateway
  before(async () => {
    lab = await ImageLab.start()
    ;({ gateway } = lab)
  })
  after(() => lab.close())
  afterEach(() => lab.reset())

  describe('for guests', () => {
    it('creates guests from a downloaded image', async () => {
      await lab.downloaded('alpine-3.22')
      const { status, body } = await lab.create('from-alpine', 'alpine-3.22')
      expect(status).to.equal(202)
      expect((await lab.ended(body.data.task_id as string)).status).to.equal('done')
      expect((await lab.remove('alpine-3.22')).status).to.equal(200)
      const { data } = (await gateway.request('GET', '/containers/from-alpine')).body
      expect(data).to.include({ status: 'stopped', template: 'alpine-3.22' })
    })

    it('downloads a missing image first, and refuses to cancel the download or to delete the image', async () => {
      lab.server.manners = { stallAfter: 400_000 }
      const { body } = await lab.create('waits', 'alpine-3.22')
      await lab.received('alpine-3.22')
      for (const reply of [await lab.cancel('alpine-3.22'), await lab.remove('alpine-3.22')])
        expect([reply.status, reply.body.code]).to.deep.equal([409, 'image_in_use'])
      expect((await lab.download('alpine-3.22')).body.code).to.equal('task_running')
      lab.server.manners = {}
      await lab.restartAgent() // ends the stalled connection
      expect((await lab.ended(body.data.task_id as string)).status).to.equal('done')
    })

    it('creates no guest, and leaves nothing behind, if the image cannot be downloaded', async () => {
      lab.server.manners = { cutAfter: 0 }
      const { body } = await lab.create('never', 'alpine-3.22')
      expect((await lab.ended(body.data.task_id as string)).status).to.equal('failed')
      expect((await gateway.request('GET', '/containers/never')).status).to.equal(404)
      expect(await lab.row('alpine-3.22')).to.include({ downloading: false, error: 'download_failed' })
      expect(lab.left()).to.deep.equal([])
    })

    it('does not delete an image during the creation of a guest from this image', async () => {
      await lab.downloaded('alpine-3.22')
      let go = (): void => undefined
      lab.agent.host.faults.clone = () => new Promise((resolve) => (go = resolve))
      const { body } = await lab.create('keeps', 'alpine-3.22')
      await waitFor(async () => (await lab.row('alpine-3.22')) && lab.agent.domain.engine.stats().running > 0)
      const reply = await lab.remove('alpine-3.22')
      expect([reply.status, reply.body.code]).to.deep.equal([409, 'image_in_use'])
      expect((await lab.row('alpine-3.22')).downloaded).to.equal(true)
      await waitFor(() => {
        go()
        return lab.agent.domain.engine.stats().running === 0
      })
      expect((await lab.ended(body.data.task_id as string)).status).to.equal('done')
      expect((await lab.remove('alpine-3.22')).status).to.equal(200)
    })

    it('refuses a disabled image for new guests and reinstallations', async () => {
      expect((await lab.ended((await lab.create('before', 'debian-12')).body.data.task_id as string)).status).to.equal(
        'done',
      )
      expect((await lab.toggle('debian-12', false)).status).to.equal(200)
      expect(await lab.row('debian-12')).to.include({ enabled: false, downloaded: true })
      const refused = [
        await lab.create('after', 'debian-12'),
        await lab.send('/containers/before/reinstall', { template_id: 'debian-12' }),
        await lab.send('/batch-create', {
          containers: [{ name: 'x', template_id: 'debian-12' }],
        }),
        await lab.send('/batch-action', {
          action: 'reinstall',
          containers: ['before'],
          template_id: 'debian-12',
        }),
      ]
      for (const { status, body } of refused) expect([status, body.code]).to.deep.equal([409, 'image_disabled'])
      expect((await lab.send('/containers/before/start', [])).status).to.equal(202)
      await lab.toggle('debian-12', true)
      expect((await lab.create('after', 'debian-12')).status).to.equal(202)
    })

    it('rejects an image at the agent, too, if it is disabled, unknown, or only for virtual machines', async () => {
      lab.agent.domain.imageAdmin.setEnabled('debian-12', false)
      expect(() => lab.agent.domain.images.checkUsable('debian-12', 'lxc')).to.throw(/disabled/)
      expect(() => lab.agent.domain.images.checkUsable('debian-12-kvm', 'lxc')).to.throw(/kvm/)
      expect(() => lab.agent.domain.images.checkUsable('nothing', 'lxc')).to.throw(/template nothing does not exist/)
    })
  })

  describe('for custom images', () => {
    const custom = (fields: object = {}): object => ({
      type: 'lxc',
      name: 'My Alpine',
      description: 'with tools',
      distro: 'alpine',
      release: '3.22',
      arch: 'x86_64',
      url: `${lab.server.url}/custom.tar.gz`,
      sha256: sha256Of(lab.content),
      ...fields,
    })
    const add = (fields: object = {}, options = {}): Promise<Reply> =>
      lab.send('/images/custom', custom(fields), options)
    const drop = (id: string): Promise<Reply> => gateway.request('DELETE', `/images/custom?id=${id}`)

    before(() => void lab.server.add('custom.tar.gz', lab.content))
    afterEach(async () => {
      for (const { id } of await lab.rows('?custom=true')) expect((await drop(id as string)).status).to.equal(200)
    })

    it('removes an image without affecting its guests', async () => {
      const { status, body } = await add()
      expect(status).to.equal(201)
      const { id } = body.data as { id: string }
      expect(id).to.match(/^custom-my-alpine-[0-9a-f]{12}$/)
      expect(body.data).to.include({
        type: 'lxc',
        name: 'My Alpine',
        arch: 'amd64',
        variant: 'default',
        custom: true,
        source: 'url',
        downloaded: false,
        enabled: true,
        sha256: sha256Of(lab.content),
        url: `${lab.server.url}/custom.tar.gz`,
      })
      expect((await lab.downloaded(id)).status).to.equal('done')
      expect(await lab.enabledIds()).to.include(id)
      const made = await lab.create('of-custom', id)
      expect((await lab.ended(made.body.data.task_id as string)).status).to.equal('done')
      expect((await drop(id)).status).to.equal(200)
      expect((await lab.rows()).map((found) => found.id)).not.to.include(id)
      expect(lab.agent.host.images.has(id)).to.equal(false)
      expect((await gateway.request('GET', '/containers/of-custom')).status).to.equal(200)
      expect((await lab.create('x', id)).status).to.equal(400)
      expect((await drop(id)).status).to.equal(404)
    })

    it('adds an image only once if the request is repeated, and still lists the image after a restart of the agent', async () => {
      const headers = { 'idempotency-key': randomUUID() }
      const [first, again] = [await add({}, { headers }), await add({}, { headers })]
      expect(again.body.data.id).to.equal(first.body.data.id)
      await lab.restartAgent()
      expect((await lab.rows('?custom=true')).map(({ id }) => id)).to.deep.equal([first.body.data.id])
    })

    it('does not remove an image during the creation of a guest from this image', async () => {
      const { id } = (await add()).body.data as { id: string }
      lab.server.manners = { stallAfter: 400_000 }
      const made = await lab.create('slow', id)
      await lab.received(id)
      expect((await drop(id)).body.code).to.equal('image_in_use')
      lab.server.manners = {}
      await lab.restartAgent()
      expect((await lab.ended(made.body.data.task_id as string)).status).to.equal('done')
    })

    it('removes custom images, but not images of the catalogue', async () => {
      expect((await drop('debian-12')).body.code).to.equal('invalid_state')
      expect((await gateway.request('DELETE', '/images/custom')).body.code).to.equal('missing_field')
    })

    for (const [fields, field] of [
      [{ name: 'two\nlines' }, 'name'],
      [{ arch: 'sparc' }, 'arch'],
      [{ url: 'http://169.254.169.254/latest' }, 'url'],
    ] as const)
      it(`refuses an image with the fields ${JSON.stringify(fields)}`, async () => {
        const { status, body } = await add(fields)
        expect([status, body.details?.field]).to.deep.equal([400, field])
        expect(await lab.rows('?custom=true')).to.deep.equal([])
      })

    it('refuses an image without a required field', async () => {
      for (const field of ['type', 'name', 'distro', 'release', 'arch', 'url', 'sha256']) {
        const { body } = await add({ [field]: undefined })
        expect([body.code, body.details.field]).to.deep.equal(['missing_field', field])
      }
    })

    it('hides the URL and the checksum of an image from keys bound to containers', async () => {
      await add()
      const guest = await gateway.fleet.addGuest()
      const key = await gateway.makeKey({ scopes: ['image:*'], container_uuids: [guest.uuid] })
      const { data } = (await gateway.request('GET', '/images?custom=true', { key })).body
      expect(data).to.have.length(1)
      expect(data[0]).to.include({ url: '', sha256: '' })
      const refused = await lab.send('/images/custom', custom(), { key })
      expect(refused.body.code).to.equal('insufficient_scope')
    })
  })
})
