import { expect } from 'chai'
import type { Body } from '../../support/body.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('host devices (tun, FUSE) over HTTP', () => {
  let gateway: TestGateway
  let guest: { uuid: string; id: number }
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    guest = await gateway.fleet.addGuest()
  })
  after(() => gateway.close())

  const read = async (path: string): Promise<Body> => (await gateway.request('GET', path)).body.data
  const path = (): string => `/containers/${guest.id}/devices`
  const put = (devices: unknown, key?: string): Promise<Reply> =>
    gateway.request('PUT', path(), { body: { devices }, ...(key === undefined ? {} : { key }) })
  const outcome = ({ status, body }: Reply): unknown[] => [status, body.code]
  const create = (fields: object, key?: string): Promise<Reply> => {
    const body = { name: 'with-devices', template_id: 'debian-12', ram_mb: 64, disk_gb: 1, ...fields }
    return gateway.request('POST', '/containers', { body, ...(key === undefined ? {} : { key }) })
  }

  it('are allowed for a container by an administrator, and are available after its next start', async () => {
    expect(await read(`/containers/${guest.id}`)).to.deep.include({ devices: [] })
    const { body } = await put(['fuse', 'tun', 'tun'])
    expect(body.data).to.deep.equal({ devices: ['tun', 'fuse'], restart_required: true })
    const shown = { devices: ['tun', 'fuse'], at_next_start: ['devices'] }
    expect(await read(`/containers/${guest.id}`)).to.deep.include(shown)
    expect((await put([])).body.data).to.include({ restart_required: true })
    expect(await read(`/containers/${guest.id}`)).to.deep.include({ devices: [] })
    const { body: made } = await create({ devices: ['tun'] })
    expect(made.success, JSON.stringify(made)).to.equal(true)
    expect(await read('/containers/with-devices')).to.deep.include({ devices: ['tun'], at_next_start: [] })
  })

  it('are refused if they are unknown, or if the guest is a virtual machine', async () => {
    for (const devices of [['kvm'], [7], 'tun,kvm', Array.from({ length: 17 }, () => 'tun')])
      expect(outcome(await put(devices)), JSON.stringify(devices)).to.deep.equal([400, 'invalid_field'])
    expect(outcome(await gateway.request('PUT', path(), { body: {} }))).to.deep.equal([400, 'missing_field'])
    const machine = await create({ virtualization: 'kvm', devices: ['tun'] })
    expect(outcome(machine)).to.deep.equal([400, 'unsupported'])
  })

  it('cannot be allowed with a key bound to containers, or with only the scopes for containers', async () => {
    const creator = await gateway.makeKey({ scopes: ['container:*'] })
    const bound = await gateway.makeKey({ scopes: ['security:*', 'container:*'], container_uuids: [guest.uuid] })
    for (const key of [creator, bound])
      expect(outcome(await put(['tun'], key))).to.deep.equal([403, 'insufficient_scope'])
    const refused = await create({ name: 'no-devices', devices: ['tun'] }, creator)
    expect(outcome(refused)).to.deep.equal([403, 'insufficient_scope'])
    const container = { template_id: 'debian-12', name: 'no-devices', devices: ['tun'] }
    const batch = await gateway.request('POST', '/batch-create', { key: creator, body: { containers: [container] } })
    expect(outcome(batch)).to.deep.equal([403, 'insufficient_scope'])
    expect(
      gateway.fleet
        .agentOf('host-a')
        .guests()
        .find(({ uuid }) => uuid === guest.uuid)?.devices,
    ).to.deep.equal([])
  })
})
