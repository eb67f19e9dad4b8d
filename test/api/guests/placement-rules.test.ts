import { expect } from 'chai'
import type { Body } from '../../support/body.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const hosts = ['host-a', 'host-b', 'host-c'] as const

describe('the placement rules of containers', () => {
  let gateway: TestGateway
  let count = 0
  before(async () => {
    gateway = await startTestGateway({ hosts })
    for (const id of hosts) await gateway.fleet.work(id)
    await patchHost('host-a', { group: 'eu', labels: ['ssd'] })
    await patchHost('host-b', { group: 'eu', labels: ['ssd', 'disk=nvme'] })
  })
  after(() => gateway.close())
  beforeEach(async () => {
    for (const id of hosts) await patchHost(id, { draining: false })
    await gateway.fleet.removeGuests()
  })

  const patchHost = (id: string, body: object): Promise<Reply> => gateway.request('PATCH', `/hosts/${id}`, { body })
  const create = (placement?: object, more: object = {}): Promise<Reply> => {
    const size = { vcpu: 1, ram_mb: 128, disk_gb: 1 }
    const body = {
      name: `rules-${++count}`,
      template_id: 'debian-12',
      ...size,
      ...more,
      ...(placement && { placement }),
    }
    return gateway.request('POST', '/containers', { body })
  }
  /** Creates a container and waits until it runs. */
  const add = async (placement?: object, more?: object): Promise<Body> => {
    const { status, body, text } = await create(placement, more)
    expect(status, text).to.equal(202)
    await waitFor(async () => (await detail(body.data.id)).status === 'running', {
      what: `container ${body.data.name}`,
    })
    return detail(body.data.id)
  }
  const detail = async (id: number): Promise<Body> => (await gateway.request('GET', `/containers/${id}`)).body.data
  const migrate = (id: number, body: object): Promise<Reply> =>
    gateway.request('POST', `/containers/${id}/migrate`, { body: { dry_run: true, ...body } })
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]

  it('decide the host of a new container, and are shown to administrators only', async () => {
    const guest = await add({ group: 'eu', labels: ['disk'] })
    expect(guest.host_id).to.equal('host-b')
    expect(guest.placement).to.deep.equal({ group: 'eu', labels: ['disk'], spread: '', together: '' })
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const { body } = await gateway.request('GET', `/containers/${guest.id}`, { key })
    expect(body.data.name).to.equal(guest.name)
    expect(body.data).not.to.have.property('placement')
  })

  it('refuse a creation or a move that breaks a rule, with the code of this rule', async () => {
    expect(refusal(await create({ group: 'us' }))).to.deep.equal([409, 'placement_group'])
    expect(refusal(await create({ labels: ['gpu'] }))).to.deep.equal([409, 'placement_label'])
    expect(refusal(await create({ group: 'eu' }, { host_id: 'host-c' }))).to.deep.equal([409, 'placement_group'])
    const guest = await add({ group: 'eu' }, { host_id: 'host-a' })
    expect(refusal(await migrate(guest.id, { host_id: 'host-c' }))).to.deep.equal([409, 'placement_group'])
    expect((await migrate(guest.id, {})).body.data.to_host_id).to.equal('host-b')
  })

  it('are refused if they are invalid', async () => {
    for (const [placement, field] of [
      [{ group: 'EU' }, 'placement.group'],
      [{ labels: ['a b'] }, 'placement.labels.0'],
      [{ spread: 'x', together: 'x' }, 'placement'],
      [{ spread: 7 }, 'placement.spread'],
    ] as const) {
      const { body } = await create(placement)
      expect([body.code, body.details?.field], JSON.stringify(placement)).to.deep.equal(['invalid_field', field])
    }
  })

  it('keep two containers on different hosts, even if both are created together', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => create({ spread: 'web' })))
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([202, 202, 202, 409])
    expect(answers.find(({ status }) => status === 409)?.body.code).to.equal('placement_spread')
    const rows = await Promise.all(
      answers.filter(({ status }) => status === 202).map(({ body }) => detail(body.data.id)),
    )
    expect(rows.map(({ host_id }): string => String(host_id))).to.have.members([...hosts])
  })

  it('can be changed later, but a change moves no container', async () => {
    const guest = await add(undefined, { host_id: 'host-c' })
    const path = `/containers/${guest.id}`
    const placement = { group: 'eu' }
    const { status, text } = await gateway.request('PATCH', path, { body: { placement } })
    expect(status, text).to.equal(200)
    expect(await detail(guest.id)).to.deep.include({
      host_id: 'host-c',
      placement: { group: 'eu', labels: [], spread: '', together: '' },
    })
    await gateway.request('PATCH', path, { body: { tags: ['x'] } })
    expect((await detail(guest.id)).placement.group).to.equal('eu')
    await gateway.request('PATCH', path, { body: { placement: {} } })
    expect(await detail(guest.id)).not.to.have.property('placement')
  })

  it('cause a suggested move if they are broken, and each group of hosts has its own usage figures', async () => {
    const guest = await add(undefined, { host_id: 'host-c' })
    await gateway.request('PATCH', `/containers/${guest.id}`, { body: { placement: { labels: ['disk=nvme'] } } })
    const { body } = await gateway.request('GET', '/fleet/balance')
    expect(body.data[0]).to.deep.include({
      container_uuid: guest.uuid,
      from_host_id: 'host-c',
      to_host_id: 'host-b',
      reason: 'rule',
      code: 'placement_label',
    })
    const { groups, hosts: usages } = (await gateway.request('GET', '/fleet-usage')).body.data
    expect((groups as Body[]).map(({ group, hosts: size }) => `${group} ${size}`)).to.deep.equal([' 1', 'eu 2'])
    const disk = (usages as Body[]).filter((host) => host.host_id !== 'host-c')
    expect(groups[1].disk_total_gb).to.equal(disk[0]!.disk_total_gb + disk[1]!.disk_total_gb)
    expect(groups[0]).to.deep.include({ disk_allocated_gb: 1, ram_allocated_mb: 128, vcpu_allocated: 1 })
  })

  it('let containers that must stay together leave a host only in a drain, and only to one other host', async () => {
    const first = await add({ together: 'app' }, { host_id: 'host-a' })
    const second = await add({ together: 'app' })
    expect(second.host_id).to.equal('host-a')
    const lonely = await add({ spread: 'app-spread' }, { host_id: 'host-a' })
    await add({ spread: 'app-spread' }, { host_id: 'host-b' })
    await add({ spread: 'app-spread' }, { host_id: 'host-c' })
    expect(refusal(await migrate(first.id, {}))).to.deep.equal([409, 'placement_together'])
    const drain = await gateway.request('POST', '/hosts/host-a/drain', { body: { dry_run: true } })
    const planned = new Map((drain.body.data.containers as Body[]).map((row) => [row.name, row]))
    expect(planned.get(first.name)?.to_host_id).to.equal(planned.get(second.name)?.to_host_id).and.not.equal('')
    expect(planned.get(lonely.name)?.message).to.contain('spread')
    await gateway.request('POST', '/hosts/host-a/drain', { body: {} })
    await waitFor(
      async () => (await detail(second.id)).host_id !== 'host-a' && (await detail(first.id)).host_id !== 'host-a',
      {
        what: 'the moves of both containers',
      },
    )
    expect((await detail(first.id)).host_id).to.equal((await detail(second.id)).host_id)
    expect((await detail(lonely.id)).host_id).to.equal('host-a')
    await gateway.request('POST', '/hosts/host-a/drain/cancel')
  })
})
