import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { ImageServer, sha256Of } from '../../support/guests/image-server.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

type Row = Record<string, unknown>

const megabyte = randomBytes(1_000_000)
const guestBody = { ram_mb: 64, vcpu: 0.1, disk_gb: 1, start: false }

describe('images on several hosts', function () {
  let gateway: TestGateway
  let server: ImageServer
  before(async () => {
    server = await ImageServer.start()
    server.add('alpine.tar.xz', megabyte)
    server.offered.push({ distro: 'alpine', release: '3.22', file: 'alpine.tar.xz' })
    const hosts = ['host-a', 'host-b']
    gateway = await startTestGateway({ hosts, agentConfig: { images: server.settings } })
    for (const host of hosts) await gateway.fleet.work(host)
  })
  after(async () => {
    await gateway.close()
    await server.close()
  })

  const send = (method: 'POST' | 'PUT', path: string, body: object): Promise<Reply> =>
    gateway.request(method, path, { body })
  const there = async (host: string, id = 'alpine-3.22'): Promise<Row> =>
    ((await gateway.request('GET', `/images?host_id=${host}`)).body.data as Row[]).find((row) => row.id === id)!
  const wait = (host: string): Promise<unknown> =>
    waitFor(async () => (await there(host)).downloaded === true, { what: `the image on ${host}` })

  it('are downloaded to the given host, or to all hosts that lack them', async () => {
    const one = await send('POST', '/images/download?host_id=host-b', { template_id: 'alpine-3.22' })
    expect([one.status, one.body.hosts]).to.deep.equal([202, ['host-b']])
    await wait('host-b')
    expect(await there('host-a')).to.include({ downloaded: false, downloading: false })
    const all = await send('POST', '/images/download', { template_id: 'alpine-3.22' })
    expect(all.status).to.equal(202)
    expect((all.body.tasks as Row[]).map(({ host_id }) => host_id)).to.deep.equal(['host-a'])
    await wait('host-a')
    expect((await send('POST', '/images/download', { template_id: 'alpine-3.22' })).status).to.equal(200)
    const named = await send('PUT', '/images/toggle', { template_id: 'alpine-3.22', enabled: false, host_id: 'host-a' })
    expect(named.body.hosts).to.deep.equal(['host-a'])
    expect([(await there('host-a')).enabled, (await there('host-b')).enabled]).to.deep.equal([false, true])
    const { body } = await gateway.request('DELETE', '/images/delete?template_id=alpine-3.22')
    expect(body.hosts).to.have.members(['host-a', 'host-b'])
  })

  it('are all listed on request, while the default is the first host', async () => {
    const hostsOf = async (query: string) =>
      ((await gateway.request('GET', `/images${query}`)).body.data as Row[])
        .filter(({ id }) => id === 'alpine-3.22')
        .map(({ host_id }) => host_id)
    expect(await hostsOf('')).to.deep.equal(['host-a'])
    expect(await hostsOf('?all_hosts=true')).to.have.members(['host-a', 'host-b'])
  })

  it('are used for guests only on hosts where the images are enabled', async () => {
    const body = { ...guestBody, name: 'placed', template_id: 'alpine-3.22' }
    const { status, body: made } = await send('POST', '/containers', body)
    expect(status).to.equal(202)
    const { data } = (await gateway.request('GET', `/containers/${made.data.name}`)).body
    expect(data.host_id).to.equal('host-b')
    const named = await send('POST', '/containers', { ...body, name: 'other', host_id: 'host-a' })
    expect([named.status, named.body.code]).to.deep.equal([409, 'image_disabled'])
  })

  it('are added on the online hosts, and the answer lists the offline hosts', async () => {
    await gateway.fleet.setHostState('host-b', 'offline')
    const custom = {
      type: 'lxc',
      name: 'x',
      description: '',
      distro: 'alpine',
      release: '3.22',
      arch: 'amd64',
      url: `${server.url}/alpine.tar.xz`,
      sha256: sha256Of(megabyte),
    }
    const { status, body } = await send('POST', '/images/custom', custom)
    expect([status, body.hosts]).to.deep.equal([201, ['host-a']])
    expect(body.failed).to.have.length(1)
    expect(body.failed[0]).to.include({ name: 'host-b', code: 'host_offline' })
    const named = await send('POST', '/images/custom?host_id=host-b', custom)
    expect([named.status, named.body.code]).to.deep.equal([503, 'host_offline'])
    await gateway.fleet.setHostState('host-b', 'online')
  })

  const customOf = (name: string, more: object = {}): object => ({
    type: 'lxc',
    name,
    description: '',
    distro: 'alpine',
    release: '3.22',
    arch: 'amd64',
    url: `${server.url}/alpine.tar.xz`,
    sha256: sha256Of(megabyte),
    ...more,
  })
  const holders = async (id: string): Promise<string[]> => {
    const rows = await Promise.all(['host-a', 'host-b'].map(async (host) => ((await there(host, id)) ? [host] : [])))
    return rows.flat()
  }
  const addCustom = async (name: string, more: object = {}): Promise<string> => {
    const { status, body, text } = await send('POST', '/images/custom', customOf(name, more))
    expect(status, text).to.equal(201)
    return body.data.id as string
  }

  it('are added only once to a host that comes online later if they were added for all hosts', async () => {
    await gateway.fleet.setHostState('host-b', 'offline')
    const id = await addCustom('late')
    await gateway.upkeep.run()
    await gateway.fleet.setHostState('host-b', 'online')
    await gateway.upkeep.run()
    expect(await holders(id)).to.deep.equal(['host-a', 'host-b'])
    expect(await there('host-b', id)).to.include({ name: 'late', custom: true, enabled: true })
    const { revision } = gateway.fleet.agentOf('host-b').domain.images.get(id)
    await gateway.upkeep.run()
    expect(gateway.fleet.agentOf('host-b').domain.images.get(id).revision).to.equal(revision)
  })

  it('are not copied to other hosts if they were added for one host, and not to a host from which they were removed', async () => {
    const one = await addCustom('of one', { host_id: 'host-a' })
    const all = await addCustom('of all')
    await gateway.request('DELETE', `/images/custom?id=${all}&host_id=host-b`)
    await gateway.upkeep.run()
    expect([await holders(one), await holders(all)]).to.deep.equal([['host-a'], ['host-a']])
    await gateway.request('DELETE', `/images/custom?id=${all}`)
    await gateway.upkeep.run()
    expect(await holders(all)).to.deep.equal([])
  })

  it('are added later on hosts that rejected them at first', async () => {
    const taken = await addCustom('taken')
    gateway.fleet.agentOf('host-b').domain.images.store.forget(taken)
    await gateway.fleet.caughtUp('host-b')
    gateway.fleet.twist = (client) => ({
      ...client,
      images: { ...client.images, addCustomImage: () => Promise.reject(new Error('refused')) },
    })
    await gateway.upkeep.run()
    expect(await holders(taken)).to.deep.equal(['host-a'])
    gateway.fleet.twist = (client) => client
    await gateway.upkeep.run()
    expect(await holders(taken)).to.deep.equal(['host-a', 'host-b'])
  })
})
