import { expect } from 'chai'
import { SecurityAudit } from '../../gateway/security-audit.js'
import type { Body } from '../support/body.js'
import type { LabAgent } from '../support/lab-agent.js'
import { silentLog } from '../support/redis.js'
import { startTestGateway, type Reply, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

const target = '198.51.100.9'

describe('security over HTTP', () => {
  let gateway: TestGateway
  let agent: LabAgent
  let guest: { uuid: string; id: number; name: string }
  let other: { uuid: string; id: number; name: string }
  let address: string
  /** The agent's clock. */
  let clockMs = Date.now()

  before(async () => {
    // Looks are asked for: none comes by itself.
    gateway = await startTestGateway({ agentConfig: { security: { interval_seconds: 60 } } })
    await gateway.fleet.work('host-a')
    guest = await gateway.fleet.addGuest({ name: 'bad-guest' })
    other = await gateway.fleet.addGuest({ name: 'good-guest' })
    agent = gateway.fleet.agentOf('host-a')
    agent.now = () => clockMs
    address = agent.guests().find(({ uuid }) => uuid === guest.uuid)!.ipv4
  })
  after(() => gateway.close())
  beforeEach(() => (clockMs += 3_600_000))

  const call = (method: 'GET' | 'POST' | 'PUT', path: string, options = {}): Promise<Reply> =>
    gateway.request(method, path, options)
  const read = async (path: string): Promise<Body> => (await call('GET', path)).body.data
  const alerts = async (query = ''): Promise<Body[]> => (await read(`/security/alerts${query}`)) as Body[]
  const check = (): Promise<Reply> => call('POST', '/security/check')
  const shutdown = (on: boolean): Promise<Reply> =>
    call('PUT', '/security/settings', { body: { auto_shutdown: on } })
  /** As many looks with as much evidence as make an alert critical. */
  const becomeCritical = async (): Promise<void> => {
    for (let look = 0; look < 3; look++) {
      clockMs += 10_000
      agent.host.sensor.scanPorts(address, target, 1000)
      await check()
    }
  }
  const newest = async (): Promise<Body> => (await alerts())[0]!
  const guestRow = (): Promise<Body> => read(`/containers/${guest.id}`)

  it('tells of nothing at first', async () => {
    expect(await alerts()).to.deep.equal([])
    const { data } = (await call('GET', '/security/summary')).body
    expect(data).to.include({
      host_id: '',
      total: 0,
      active: 0,
      containers: 0,
      blocked: 0,
      last_alert_at: '',
    })
    expect(await read('/security/settings')).to.deep.equal({ host_id: 'host-a', auto_shutdown: false })
  })

  it('has an alert after a check, grown by the next and told by its fields', async () => {
    agent.host.sensor.scanPorts(address, target, 20)
    const { status, body } = await check()
    expect([status, body.message]).to.deep.equal([200, '2 containers checked, 1 findings'])
    const [row, ...rest] = await alerts()
    expect(rest).to.deep.equal([])
    expect(row).to.include({
      container_id: guest.id,
      container_name: 'bad-guest',
      type: 'port_scan',
      count: 1,
    })
    expect(row).to.include({
      severity: 'medium',
      source_ip: address,
      target_ip: target,
      target_port: 0,
      action: '',
    })
    expect(row!['log_line']).to.match(/ medium port_scan bad-guest \S+ -> 198\.51\.100\.9: 20 ports of/)
    clockMs += 10_000
    await check()
    expect((await newest())['count']).to.equal(2)
    expect(await read('/security/summary')).to.include({ total: 1 })
  })

  it('has the outcome of a check for those within five seconds', async () => {
    const { length } = await alerts()
    await check()
    agent.host.sensor.scanPorts(address, '198.51.100.77', 20)
    clockMs += 4000
    await check()
    expect(await alerts()).to.have.lengthOf(length)
    clockMs += 1000
    await check()
    expect(await alerts()).to.have.lengthOf(length + 1)
  })

  it('lists by type, severity and container, in pages', async () => {
    const all = await alerts()
    expect(await alerts('?type=port_scan')).to.have.lengthOf(all.length)
    for (const query of ['?type=ddos', '?severity=critical', '?container_name=good-guest'])
      expect(await alerts(query), query).to.deep.equal([])
    expect(await alerts('?page=2&page_size=1')).to.deep.equal([all[1]])
  })

  it('has what was kept of a container, and its connections of the moment', async () => {
    const flow = {
      source: address,
      target,
      sourcePort: 40_000,
      targetPort: 81,
      protocol: 'tcp',
      state: 'SYN_SENT',
    }
    agent.host.sensor.flows = [{ ...flow, unreplied: true, leftSeconds: 60, bytes: 60, replyBytes: 0 }]
    const logs = (await read('/security/logs?container=bad-guest')) as Body[]
    agent.host.sensor.flows = []
    expect(logs[0]).to.include({
      src_ip: address,
      dst_ip: target,
      src_port: 40_000,
      dst_port: 81,
      state: 'SYN_SENT',
    })
    expect(logs.filter(({ state }) => state === 'REFUSED').length).to.be.within(20, 99)
    expect(await read('/security/logs?container=good-guest')).to.deep.equal([])
  })

  it('lists the logs of all containers in pages', async () => {
    const all = await call('GET', '/security/logs')
    const rows = all.body.data as Body[]
    expect(rows.length).to.be.at.least(20)
    expect(all.headers['x-total-count']).to.equal(String(rows.length))
    expect(rows[0]).to.include({ container_name: 'bad-guest', container_id: guest.id, host_id: 'host-a' })
    const page = await call('GET', '/security/logs?page=2&page_size=5&host_id=host-a')
    expect([page.body.data, page.headers['x-total-count']]).to.deep.equal([
      rows.slice(5, 10),
      String(rows.length),
    ])
    expect(await read(`/security/logs?container=${guest.id}&page=1&page_size=2`)).to.have.lengthOf(2)
    const key = await gateway.makeKey({ scopes: ['security:*'], container_uuids: [other.uuid] })
    expect((await call('GET', '/security/logs', { key })).body.data).to.deep.equal([])
  })

  it('checks a container named by its numeric id', async () => {
    const { status, text } = await call('POST', '/security/check', { body: { container_name: guest.id } })
    expect(status, text).to.equal(200)
  })

  for (const [name, method, path, options, status, code] of [
    ['logs of an unknown host', 'GET', '/security/logs?host_id=none', {}, 400, 'invalid_field'],
    ['logs of a container that is not there', 'GET', '/security/logs?container=none', {}, 404, 'not_found'],
    ['a check of it', 'POST', '/security/check', { body: { container_name: 'none' } }, 404, 'not_found'],
    ['settings without a switch', 'PUT', '/security/settings', { body: {} }, 400, 'missing_field'],
    [
      'a switch that is none',
      'PUT',
      '/security/settings',
      { body: { auto_shutdown: 'perhaps' } },
      400,
      'invalid_field',
    ],
    ['an unknown host', 'GET', '/security/alerts?host_id=none', {}, 400, 'invalid_field'],
    ['an unknown type', 'GET', '/security/alerts?type=none', {}, 400, 'invalid_field'],
    [
      'a word for mail',
      'PUT',
      '/containers/bad-guest/security',
      { body: { smtp: 'ajar' } },
      400,
      'invalid_field',
    ],
  ] as const)
    it(`refuses ${name}`, async () => {
      const answer = await call(method, path, options)
      expect([answer.status, answer.body.code]).to.deep.equal([status, code])
    })

  it('shows bound callers what is of their containers, and lets them change nothing', async () => {
    const key = await gateway.makeKey({ scopes: ['security:*'], container_uuids: [other.uuid] })
    for (const path of ['/security/alerts', '/security/logs?container=good-guest'])
      expect((await call('GET', path, { key })).body.data, path).to.deep.equal([])
    expect((await call('GET', '/security/summary', { key })).body.data).to.include({ total: 0 })
    expect((await call('GET', '/security/logs?container=bad-guest', { key })).status).to.equal(404)
    for (const [method, path] of [
      ['POST', '/security/check'],
      ['PUT', '/security/settings'],
      ['PUT', `/containers/${other.id}/security`],
    ] as const) {
      const answer = await call(method, path, { key, body: { auto_shutdown: false, smtp: 'open' } })
      expect([answer.status, answer.body.code], path).to.deep.equal([403, 'insufficient_scope'])
    }
  })

  it('stops a guest after a time of grace, blocks it, and an administrator’s start lifts that', async () => {
    await shutdown(true)
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: 'stop_pending' })
    expect((await newest())['stop_at']).to.not.equal('')
    expect(await guestRow()).to.include({ policy_blocked: false })
    clockMs += 61_000
    agent.host.sensor.scanPorts(address, target, 1000)
    await check()
    await waitFor(async () => (await guestRow())['status'] === 'stopped')
    expect(await guestRow()).to.include({ policy_blocked: true, policy_reason: 'security: port_scan' })
    expect(await newest()).to.include({ action: 'stopped', stop_at: '' })
    expect(await read('/security/summary')).to.include({ blocked: 1 })
    const key = await gateway.makeKey({ scopes: ['container:*'], container_uuids: [guest.uuid] })
    const refused = await call('POST', `/containers/${guest.id}/start`, { key })
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
    expect((await call('POST', `/containers/${guest.id}/start`)).status).to.equal(202)
    await waitFor(async () => (await guestRow())['status'] === 'running')
    expect(await guestRow()).to.include({ policy_blocked: false, policy_reason: '' })
    clockMs += 10_000
    await check()
    expect(await newest()).to.include({ action: 'lifted' })
    await shutdown(false)
  })

  it('is audited once for what it did by itself, by however many gateways', async () => {
    const { store, access, fleet } = gateway
    const audits = [1, 2].map(
      () => new SecurityAudit({ view: fleet.view, audit: access.audit, store, log: silentLog }),
    )
    for (const audit of [...audits, ...audits]) await audit.look()
    const entries = (await read('/audit-logs?user=system:security')) as Body[]
    expect(entries).to.have.lengthOf(1)
    expect(entries[0]).to.include({
      action: 'container.stop',
      target: 'bad-guest',
      success: true,
      address: '',
    })
  })

  it('does not stop one that ended it meanwhile', async () => {
    await shutdown(true)
    await becomeCritical()
    clockMs += 400_000
    await check()
    expect(await newest()).to.include({ action: 'canceled' })
    expect(await guestRow()).to.include({ policy_blocked: false, status: 'running' })
    await shutdown(false)
  })

  it('does not stop one that ended it at once, however often it looks until then', async () => {
    // Judged as where looks are as far apart as on hosts; still none comes by itself.
    const { security } = (agent as unknown as { config: { security: { interval_seconds: number } } }).config
    security.interval_seconds = 10
    await shutdown(true)
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: 'stop_pending' })
    for (let looks = 0; looks < 8; looks++) {
      clockMs += 10_000
      await check()
    }
    expect(await newest()).to.include({ action: 'canceled' })
    expect(await guestRow()).to.include({ policy_blocked: false, status: 'running' })
    await shutdown(false)
    security.interval_seconds = 60
  })

  it('is not critical by one burst, however often it is looked at', async () => {
    await shutdown(true)
    clockMs += 10_000
    agent.host.sensor.scanPorts(address, target, 1000)
    for (let looks = 0; looks < 6; looks++) {
      await check()
      clockMs += 10_000
    }
    expect(await newest()).to.include({ severity: 'high', action: '', count: 6 })
    await shutdown(false)
  })

  it('does not tell a new guest of what its address did before', async () => {
    const former = await gateway.fleet.addGuest({ name: 'former-guest' })
    const { ipv4 } = agent.guests().find(({ uuid }) => uuid === former.uuid)!
    clockMs += 600_000
    await check()
    agent.removeGuest(former.uuid)
    const later = await gateway.fleet.addGuest({ name: 'later-guest', ipv4 })
    const ofLater = (): Promise<Body[]> => alerts('?container_name=later-guest')
    /** As the kernel has them of ports that nobody answered. */
    const leave = (ageSeconds: number): void => {
      agent.host.sensor.flows = Array.from({ length: 200 }, (_, index) => ({
        ...{ source: ipv4, target, protocol: 'tcp', state: 'SYN_SENT', unreplied: true },
        ...{
          sourcePort: 40_000,
          targetPort: index + 1,
          leftSeconds: 120 - ageSeconds,
          bytes: 60,
          replyBytes: 0,
        },
      }))
    }
    await check()
    clockMs += 61_000
    leave(110)
    await check()
    expect(await ofLater()).to.deep.equal([])
    clockMs += 61_000
    leave(30)
    await check()
    agent.host.sensor.flows = []
    expect(await ofLater()).to.have.lengthOf(1)
    agent.removeGuest(later.uuid)
  })

  it('does not stop an exempt one', async () => {
    await shutdown(true)
    const path = `/containers/${guest.id}/security`
    const exempt = { auto_shutdown_exempt: true, smtp: 'default' }
    expect((await call('PUT', path, { body: { auto_shutdown_exempt: true } })).body.data).to.deep.equal(
      exempt,
    )
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: '' })
    expect(await read(path)).to.deep.equal(exempt)
    await call('PUT', path, { body: { auto_shutdown_exempt: false } })
    await shutdown(false)
  })

  it('ends what it is about to do, and what it did, once it is switched off', async () => {
    await shutdown(true)
    await becomeCritical()
    const { body } = await shutdown(false)
    expect(body.data).to.deep.equal({
      host_id: 'host-a',
      auto_shutdown: false,
      cancelled_tasks: 1,
      cleared_blocks: 0,
    })
    expect(await newest()).to.include({ action: 'canceled' })
    agent.update(guest.uuid, { policy: { expired: false, overQuota: false, abuse: 'ddos' } })
    await waitFor(async () => (await guestRow())['policy_blocked'] === true)
    expect((await shutdown(false)).body.data).to.include({ cleared_blocks: 1 })
    expect(await guestRow()).to.include({ policy_blocked: false })
  })

  it('goes on with a stop after the agent was killed', async () => {
    await shutdown(true)
    await becomeCritical()
    await agent.restart()
    await waitFor(async () => (await newest())['action'] === 'stop_pending')
    clockMs += 61_000
    agent.host.sensor.scanPorts(address, target, 1000)
    await waitFor(async () => (await check()).status === 200)
    await waitFor(async () => (await guestRow())['policy_reason'] === 'security: port_scan')
    await shutdown(false)
  })

  it('opens port 25 for one container', async () => {
    const path = `/containers/${other.id}/security`
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.not.equal(true)
    await call('PUT', path, { body: { smtp: 'open' } })
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.equal(true)
    await call('PUT', path, { body: { smtp: 'closed' } })
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.equal(false)
  })

  describe('of a guest whose memory ran out', () => {
    let hungry: { uuid: string; name: string }
    beforeEach(async () => {
      hungry = await gateway.fleet.addGuest({ name: `hungry-${clockMs}` })
      await agent.domain.reconciler.pass()
    })
    const own = (): Promise<Body[]> => alerts(`?container_name=${hungry.name}`)
    const sampleKills = async (memoryKills: number): Promise<void> => {
      agent.host.driver.sample = { ...agent.host.driver.sample, memoryKills }
      // The first one may join a sample that began before the change.
      for (let sample = 0; sample < 2; sample++) await agent.domain.sampler.sample()
      await gateway.fleet.caughtUp('host-a')
    }
    after(() => {
      delete (agent.host.driver.sample as { memoryKills?: number }).memoryKills
    })

    it('counts processes that the kernel killed in it, once a minute at most, and leaves it running', async () => {
      await sampleKills(2)
      expect(await own(), 'kills from before this agent').to.deep.equal([])
      await sampleKills(3)
      const [first] = await own()
      expect(first).to.deep.include({ type: 'out_of_memory', severity: 'medium', count: 1, action: '' })
      expect(first!['detail']).to.equal('its memory of 512 MB ran out, and the kernel killed 1 process of it')
      await sampleKills(500)
      expect((await own()).map(({ count }) => count as number)).to.deep.equal([1])
      clockMs += 61_000
      await sampleKills(501)
      expect((await own()).map(({ count }) => count as number)).to.deep.equal([499])
      expect(agent.host.driver.running.has(hungry.uuid)).to.equal(true)
      expect((await read('/security/summary'))['by_type'].out_of_memory).to.be.greaterThan(0)
    })

    it('that was killed has an alert, and is started again', async () => {
      agent.host.driver.end(hungry.uuid, 'memory')
      await waitFor(() => agent.host.driver.running.has(hungry.uuid), { what: 'it to run again' })
      await gateway.fleet.caughtUp('host-a')
      const [row, ...rest] = await own()
      expect(rest).to.deep.equal([])
      expect(row).to.deep.include({ type: 'out_of_memory', severity: 'high', count: 1 })
      expect(row!['detail']).to.equal('the guest was killed: its memory of 512 MB ran out')
      const { data } = (await call('GET', '/tasks')).body as { data: Body[] }
      expect(data.find((task) => task['container_name'] === hungry.name)).to.deep.include({
        ...{ action: 'start', user: 'system' },
      })
    })
  })
})
