import { expect } from 'chai'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { gzipSync } from 'node:zlib'
import { tarEntry } from '../../../agent/exports/archive-head.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import {
  archiveHead as headOf,
  exportedArchive as archiveOf,
  exportedFiles as files,
  exportedManifest as manifest,
} from '../../support/guests/exported-archive.js'
import { waitFor } from '../../support/wait.js'

describe('POST /containers/import', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
  })
  after(() => gateway.close())

  const send = (body: Buffer, query = '', options: { key?: string; type?: string } = {}): Promise<Reply> =>
    gateway.request('POST', `/containers/import?${query}`, {
      body,
      headers: { 'content-type': options.type ?? 'application/x-tar' },
      ...(options.key !== undefined && { key: options.key }),
    })
  /** Begins to send an archive that is never completed. */
  const begin = (name: string, key: string): ClientRequest => {
    const headers = { 'x-api-key': key, 'content-type': 'application/x-tar' }
    const url = `${gateway.url}/api/v1/containers/import?host_id=host-a`
    const begun = httpRequest(url, { method: 'POST', headers, agent: false }).on('error', () => undefined)
    begun.write(Buffer.concat([headOf({ ...manifest, guest: { ...manifest.guest, name } }), filler]))
    return begun
  }
  const volumes = (): number => gateway.fleet.agents.get('host-a')!.host.volumes.size

  it('creates a container with limits, tags, devices and ports of the archive, and replaces ports in use', async () => {
    const first = await send(archiveOf('one'), 'host_id=host-a')
    expect(first.status, first.text).to.equal(202)
    expect(first.body.data.notes).to.deep.equal([])
    const second = await send(archiveOf('one'), 'name=two&ram_mb=512')
    expect(second.status, second.text).to.equal(202)
    const [note] = second.body.data.notes as { part: string; reason: string }[]
    expect(note?.part).to.equal('tcp port 20080')
    expect(note?.reason).to.match(/^it is in use or not allowed on the host: the container got port \d+$/)
    for (const [name, ram] of [
      ['one', 256],
      ['two', 512],
    ]) {
      await waitFor(async () => (await gateway.request('GET', `/containers/${name}`)).body.data.status === 'stopped', {
        what: 'the task to end',
      })
      const { data } = (await gateway.request('GET', `/containers/${name}`)).body
      expect(data).to.deep.include({ name, ram_mb: ram, template: 'imported', tags: ['web'], devices: ['tun'] })
      const mappings = data.port_mappings as { description: string }[]
      expect(mappings.map(({ description }) => description)).to.include('web')
    }
    const { data: logs } = (await gateway.request('GET', '/audit-logs?action=container.import')).body
    const length = archiveOf('one').length
    expect((logs as { detail: string }[])[0]?.detail).to.match(new RegExp(`, ${length} bytes$`))
  })

  it('leaves out devices for callers that may not allow them', async () => {
    const key = await gateway.makeKey({ scopes: ['container:create'], name: 'creator' })
    const { status, text, body } = await send(archiveOf('plain'), '', { key })
    expect(status, text).to.equal(202)
    expect(text).to.contain('only administrators may allow devices: tun')
    const { data } = (await gateway.request('GET', `/containers/${body.data.uuid as string}`)).body
    expect(data.devices).to.deep.equal([])
  })

  const refusals: readonly [name: string, body: () => Buffer, query: string, status: number, code: string][] = [
    ['an empty body', () => Buffer.alloc(0), '', 400, 'image_invalid'],
    ['an archive without a manifest', () => files, '', 400, 'image_invalid'],
    ['a manifest that is not JSON', () => headOf('{'), '', 400, 'image_invalid'],
    ['a manifest of a newer version', () => headOf({ ...manifest, version: 2 }), '', 400, 'image_invalid'],
    ['a truncated archive', () => archiveOf('cut').subarray(0, -10), '', 400, 'image_invalid'],
    ['a name that is taken', () => archiveOf('one'), '', 409, 'name_conflict'],
    ['an invalid name', () => archiveOf('one'), 'name=list', 400, 'invalid_field'],
    ['an unknown host', () => archiveOf('other'), 'host_id=nowhere', 400, 'invalid_field'],
    ['limits without room', () => archiveOf('other'), 'ram_mb=900000', 409, 'resource_exhausted'],
  ]
  for (const [name, body, query, status, code] of refusals)
    it(`refuses ${name}, and leaves nothing`, async () => {
      const before = volumes()
      const refused = await send(body(), query)
      expect([refused.status, refused.body.code], refused.text).to.deep.equal([status, code])
      await waitFor(() => volumes() === before, { what: 'the creation to be undone' })
      expect((await gateway.request('GET', '/containers/cut')).status).to.equal(404)
    })

  it('refuses callers without the scope or with bound containers, and other types', async () => {
    const { uuid } = await gateway.fleet.addGuest()
    const reader = await gateway.makeKey({ scopes: ['container:read'], name: 'reader' })
    const bound = await gateway.makeKey({ scopes: ['container:create'], container_uuids: [uuid], name: 'bound' })
    for (const key of [reader, bound])
      expect((await send(archiveOf('other'), '', { key })).body.code).to.equal('insufficient_scope')
    const typed = await send(archiveOf('other'), '', { type: 'application/json' })
    expect([typed.status, typed.body.code]).to.deep.equal([415, 'unsupported_media_type'])
  })

  describe('if the upload ends before the creation is ordered', () => {
    let before: number
    beforeEach(() => (before = volumes()))
    afterEach(() => void (gateway.fleet.twist = (client) => client))

    /** Calls a function when the host has accepted the upload of an archive. */
    const onAccepted = (act: (importId: string) => void): void => {
      gateway.fleet.twist = (client) => ({
        ...client,
        receiveArchive: async (begin) => {
          const upload = await client.receiveArchive(begin)
          act(begin.id)
          return upload
        },
      })
    }
    const expectNothing = async (name: string): Promise<void> => {
      const isGone = async (): Promise<boolean> =>
        volumes() === before && (await gateway.request('GET', `/containers/${name}`)).status === 404
      await waitFor(isGone, { what: 'the creation to be undone' })
    }

    it('asks the client to send the archive again, and leaves the name free', async () => {
      const { uploads } = gateway.fleet.agents.get('host-a')!.domain.imports
      onAccepted((id) => uploads.close(uploads.find(id)!))
      const refused = await send(archiveOf('lost'))
      expect([refused.status, refused.body.code], refused.text).to.deep.equal([409, 'import_interrupted'])
      await expectNothing('lost')
      gateway.fleet.twist = (client) => client
      const again = await send(archiveOf('lost'))
      expect(again.status, again.text).to.equal(202)
    })

    it('undoes the creation if the client has disconnected', async () => {
      const key = await gateway.makeKey({ scopes: ['*'], name: 'leaver' })
      let isAccepted = false
      onAccepted(() => {
        client.destroy()
        isAccepted = true
      })
      const client = begin('early', key)
      await waitFor(() => isAccepted, { what: 'the host to accept the archive' })
      await waitFor(
        async () => {
          const { data } = (await gateway.request('GET', '/audit-logs?action=container.import&page_size=1')).body
          return JSON.stringify(data).includes('early')
        },
        { what: 'the audit entry' },
      )
      await expectNothing('early')
    })
  })

  describe('with a client that has sent a part', () => {
    const received = (): number => Math.max(0, ...gateway.fleet.agents.get('host-a')!.host.archives.received.values())
    let client: ClientRequest
    let key: string
    let keys = 0
    beforeEach(async () => {
      gateway.fleet.agents.get('host-a')!.host.archives.received.clear()
      key = await gateway.makeKey({ scopes: ['*'], name: `sender-${keys++}` }) // its earlier imports have ended
      client = begin('part', key)
      await waitFor(() => received() > 0, { what: 'the archive to arrive' })
    })
    afterEach(async () => {
      client.destroy()
      await waitFor(async () => (await gateway.request('GET', '/containers/part')).status === 404, {
        what: 'the creation to be undone',
      })
    })

    it('shows the received bytes in its task, and undoes the creation when the client disconnects', async () => {
      const stage = async (): Promise<string> => {
        const { data } = (await gateway.request('GET', '/tasks?status=running')).body
        return (data as { stage: string }[])[0]?.stage ?? ''
      }
      await waitFor(async () => /^receiving: \d+ MiB$/.test(await stage()), { what: 'the progress' })
      client.destroy()
      await waitFor(
        async () => {
          const { text } = await gateway.request('GET', '/audit-logs?action=container.import&page_size=1')
          return text.includes('the connection ended before the complete archive was received')
        },
        { what: 'the audit entry' },
      )
    })

    it('can be canceled like other tasks, and reports this to the client', async () => {
      const answer = once(client, 'response') as Promise<[IncomingMessage]>
      const { data } = (await gateway.request('GET', '/tasks?status=running')).body
      const { id } = (data as { id: string }[])[0]!
      const canceled = await gateway.request('DELETE', `/tasks/${id}`)
      expect(canceled.status, canceled.text).to.equal(200)
      const [{ statusCode }] = await answer
      expect(statusCode).to.equal(409)
      const { text } = await gateway.request('GET', '/audit-logs?action=container.import&page_size=1')
      expect(text).to.match(/import_interrupted: the import was canceled or its host was restarted/)
    })

    it('refuses a third archive of the same caller', async () => {
      const second = begin('second', key)
      await waitFor(async () => (await gateway.request('GET', '/containers/second')).status === 200, {
        what: 'the second import to begin',
      })
      const { status, body } = await send(archiveOf('third'), '', { key })
      expect([status, body.code]).to.deep.equal([409, 'resource_exhausted'])
      expect(body.message).to.contain('you can import at most 2 archives')
      second.destroy()
      await waitFor(async () => (await gateway.request('GET', '/containers/second')).status === 404, {
        what: 'the second creation to be undone',
      })
    })

    it('undoes the creation when the agent restarts', async () => {
      await gateway.fleet.setHostState('host-a', 'offline')
      await gateway.fleet.setHostState('host-a', 'online')
    })
  })
})

/** Bytes that are longer than the part of the archive that the gateway reads first. */
const filler = gzipSync(tarEntry('rootfs/data', randomBytes(600_000), new Date(0)))
