import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** Port that the guests of both hosts have before the setting is turned on. */
const shared = 40_001
const template = 'debian-12'

describe('the setting for unique host ports', () => {
  let gateway: TestGateway
  let guest: Guest
  let other: Guest
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    guest = await gateway.fleet.addGuest({ portMappings: [mapping(shared), mapping(40_002)] })
    other = await gateway.fleet.addGuest({ portMappings: [mapping(shared), mapping(40_003)] }, 'host-b')
  })
  after(() => gateway.close())

  const mapping = (hostPort: number) => ({
    ...{ protocol: 'tcp' as const, hostIp: '', hostPort, hostPortEnd: hostPort },
    ...{ containerPort: 80, containerPortEnd: 80, description: '' },
  })
  const set = (unique_ports: unknown) => gateway.request('PUT', '/port-settings', { body: { unique_ports } })
  const add = (body: object, options: object = {}) =>
    gateway.request('POST', `/containers/${guest.id}/port-mappings`, {
      body: { container_port: 80, ...body },
      ...options,
    })
  const row = (unique_ports: boolean) => ({
    unique_ports,
    duplicate_ports: 1,
    common_port_range: { start: 20_000, end: 59_999 },
  })

  it('is off by default, and refuses other values', async () => {
    expect((await gateway.request('GET', '/port-settings')).body.data).to.deep.equal(row(false))
    const { status, body } = await set('maybe')
    expect([status, body.code]).to.deep.equal([400, 'invalid_field'])
    expect((await add({ host_port: 40_003 })).status).to.equal(200)
    await gateway.request('DELETE', `/containers/${guest.id}/port-mappings/2`)
  })

  it('keeps and counts ports that several containers have when it is turned on', async () => {
    const { status, body } = await set(true)
    expect([status, body.data]).to.deep.equal([200, row(true)])
    const { portMappings } = gateway.fleet.view.findGuest(guest.uuid)!.guest
    expect(portMappings.map(({ hostPort }) => hostPort)).to.deep.equal([shared, 40_002])
  })

  it('refuses a port of a container on another host, and accepts a port that is free', async () => {
    const refused = await add({ host_port: 40_003 })
    expect([refused.status, refused.body.code, refused.body.details?.field]).to.deep.equal([
      409,
      'port_conflict',
      'host_port',
    ])
    expect(refused.body.message).to.include(`the container ${other.name} on host-b`)
    expect((await add({ host_port: 40_004 })).status).to.equal(200)
    expect((await add({ host_port: 40_003, protocol: 'udp' })).status).to.equal(200)
  })

  it('does not name the other container to a caller that may not see it', async () => {
    const key = await gateway.makeKey({ scopes: ['container:network'], container_uuids: [guest.uuid] })
    const { body } = await add({ host_port: 40_003 }, { key })
    expect(body.code).to.equal('port_conflict')
    expect(body.message).not.to.include(other.name).and.not.to.include('host-b')
  })

  it('checks a changed host port, and permits changes of other fields', async () => {
    const change = (index: number, body: object) =>
      gateway.request('PUT', `/containers/${guest.id}/port-mappings/${index}`, { body })
    const refused = await change(1, { host_port: 40_003 })
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'port_conflict'])
    const inner = await change(0, { container_port: 81 })
    expect(inner.status, JSON.stringify(inner.body)).to.equal(200)
    const { status, body } = await change(1, { host_port: 0 })
    expect(status).to.equal(200)
    expect((body.data as { host_port: number }[])[1]!.host_port).not.to.equal(40_002)
  })

  it('applies to new containers, also to several at once', async () => {
    const one = (name: string, host_port: number) => ({
      ...{ name, template_id: template, host_id: 'host-a' },
      nat_port_mappings: [{ container_port: 80, host_port }],
    })
    const refused = await gateway.request('POST', '/containers', { body: one('refused', 40_003) })
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'port_conflict'])
    const several = await gateway.request('POST', '/batch-create', {
      body: { containers: [one('first', 40_010), { ...one('second', 40_010), host_id: 'host-b' }] },
    })
    expect([several.status, several.body.code]).to.deep.equal([409, 'port_conflict'])
    const created = await gateway.request('POST', '/containers', { body: one('created', 40_011) })
    expect(created.status).to.equal(202)
    const { portMappings } = gateway.fleet.view.findGuest('created')!.guest
    expect(portMappings.map(({ hostPort }) => hostPort)).to.include(40_011)
  })

  it('finds free ports that no container of the fleet has', async () => {
    const { status, body } = await gateway.request('GET', `/containers/${guest.id}/random-port?count=3`)
    expect(status).to.equal(200)
    expect(new Set(body.data.ports as number[]).size).to.equal(3)
  })
})
