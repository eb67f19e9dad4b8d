import { expect } from 'chai'
import { SecurityAudit } from '../../../gateway/access/security-audit.js'
import type { Body } from '../../support/body.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { silentLog } from '../../support/gateway/redis.js'
import { SecurityLab, target } from '../../support/gateway/security-lab.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the automatic stop of a harmful guest', () => {
  const lab = new SecurityLab()
  const { call, read, alerts, newest, check, shutdown, guestRow, becomeCritical } = lab
  let gateway: TestGateway
  let agent: LabAgent
  let guest: SecurityLab['guest']
  let other: SecurityLab['other']
  let address: string
  before(async () => {
    await lab.start()
    ;({ gateway, agent, guest, other, address } = lab)
  })
  after(() => lab.close())
  beforeEach(() => (lab.clockMs += 3_600_000))

  it('stops and suspends the guest after a grace period, until an administrator starts the guest', async () => {
    await shutdown(true)
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: 'stop_pending' })
    expect((await newest())['stop_at']).to.not.equal('')
    expect(await guestRow()).to.include({ policy_blocked: false })
    lab.clockMs += 61_000
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
    lab.clockMs += 10_000
    await check()
    expect(await newest()).to.include({ action: 'lifted' })
    await shutdown(false)
  })

  it('writes only one audit entry, no matter how many gateways run', async () => {
    const { store, access, fleet } = gateway
    const audits = [1, 2].map(() => new SecurityAudit({ view: fleet.view, audit: access.audit, store, log: silentLog }))
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

  it('is canceled if the guest ends the abuse during the grace period', async () => {
    await shutdown(true)
    await becomeCritical()
    lab.clockMs += 400_000
    await check()
    expect(await newest()).to.include({ action: 'canceled' })
    expect(await guestRow()).to.include({ policy_blocked: false, status: 'running' })
    await shutdown(false)
  })

  it('is canceled if the abuse had already ended when the grace period began, even if many checks follow', async () => {
    // The agent notices the end of the abuse after two checks. With this interval, they take 20 s instead of 120 s.
    const { security } = (agent as unknown as { config: { security: { interval_seconds: number } } }).config
    security.interval_seconds = 10
    await shutdown(true)
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: 'stop_pending' })
    for (let looks = 0; looks < 8; looks++) {
      lab.clockMs += 10_000
      await check()
    }
    expect(await newest()).to.include({ action: 'canceled' })
    expect(await guestRow()).to.include({ policy_blocked: false, status: 'running' })
    await shutdown(false)
    security.interval_seconds = 60
  })

  it('does not happen after a single burst of connections, even if many checks follow', async () => {
    await shutdown(true)
    lab.clockMs += 10_000
    agent.host.sensor.scanPorts(address, target, 1000)
    for (let looks = 0; looks < 6; looks++) {
      await check()
      lab.clockMs += 10_000
    }
    expect(await newest()).to.include({ severity: 'high', action: '', count: 6 })
    await shutdown(false)
  })

  it('ignores connections of the former owner of an address', async () => {
    const former = await gateway.fleet.addGuest({ name: 'former-guest' })
    const { ipv4 } = agent.guests().find(({ uuid }) => uuid === former.uuid)!
    lab.clockMs += 600_000
    await check()
    agent.removeGuest(former.uuid)
    const later = await gateway.fleet.addGuest({ name: 'later-guest', ipv4 })
    const ofLater = (): Promise<Body[]> => alerts('?container_name=later-guest')
    /** Simulates unanswered connections in the kernel's table, all of which were opened `ageSeconds` ago. */
    const leave = (ageSeconds: number): void => {
      agent.host.sensor.flows = Array.from({ length: 200 }, (_, index) => ({
        source: ipv4,
        target,
        protocol: 'tcp',
        state: 'SYN_SENT',
        unreplied: true,
        sourcePort: 40_000,
        targetPort: index + 1,
        leftSeconds: 120 - ageSeconds,
        bytes: 60,
        replyBytes: 0,
      }))
    }
    await check()
    lab.clockMs += 61_000
    leave(110)
    await check()
    expect(await ofLater()).to.deep.equal([])
    lab.clockMs += 61_000
    leave(30)
    await check()
    agent.host.sensor.flows = []
    expect(await ofLater()).to.have.lengthOf(1)
    agent.removeGuest(later.uuid)
  })

  it('does not affect exempt guests', async () => {
    await shutdown(true)
    const path = `/containers/${guest.id}/security`
    const exempt = { auto_shutdown_exempt: true, smtp: 'default' }
    expect((await call('PUT', path, { body: { auto_shutdown_exempt: true } })).body.data).to.deep.equal(exempt)
    await becomeCritical()
    expect(await newest()).to.include({ severity: 'critical', action: '' })
    expect(await read(path)).to.deep.equal(exempt)
    await call('PUT', path, { body: { auto_shutdown_exempt: false } })
    await shutdown(false)
  })

  it('is canceled or lifted when automatic stops are disabled', async () => {
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

  it('happens even if the agent is restarted during the grace period', async () => {
    await shutdown(true)
    await becomeCritical()
    await agent.restart()
    await waitFor(async () => (await newest())['action'] === 'stop_pending')
    lab.clockMs += 61_000
    agent.host.sensor.scanPorts(address, target, 1000)
    await waitFor(async () => (await check()).status === 200)
    await waitFor(async () => (await guestRow())['policy_reason'] === 'security: port_scan')
    await shutdown(false)
  })

  it('does not prevent a change of the setting that opens or closes port 25 for a container', async () => {
    const path = `/containers/${other.id}/security`
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.not.equal(true)
    await call('PUT', path, { body: { smtp: 'open' } })
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.equal(true)
    await call('PUT', path, { body: { smtp: 'closed' } })
    expect(agent.host.wire.guests.get(other.uuid)?.sendsMail).to.equal(false)
  })

  describe('if a guest reaches its memory limit', () => {
    let hungry: { uuid: string; name: string }
    beforeEach(async () => {
      // The sample is set before the guest is created, because the agent may take samples at any time afterwards.
      agent.host.driver.sample = { ...agent.host.driver.sample, memoryKills: 2 }
      hungry = await gateway.fleet.addGuest({ name: `hungry-${lab.clockMs}` })
      await agent.domain.reconciler.pass()
    })
    const own = (): Promise<Body[]> => alerts(`?container_name=${hungry.name}`)
    const sampleKills = async (memoryKills: number): Promise<void> => {
      agent.host.driver.sample = { ...agent.host.driver.sample, memoryKills }
      // The first call may return a sample that began before the change.
      for (let sample = 0; sample < 2; sample++) await agent.domain.sampler.sample()
      await gateway.fleet.caughtUp('host-a')
    }
    after(() => {
      delete (agent.host.driver.sample as { memoryKills?: number }).memoryKills
    })

    it('does not happen, but an alert counts the killed processes at most once a minute', async () => {
      await sampleKills(2)
      expect(await own(), 'kills from before this agent').to.deep.equal([])
      await sampleKills(3)
      const [first] = await own()
      expect(first).to.deep.include({ type: 'out_of_memory', severity: 'medium', count: 1, action: '' })
      expect(first!['detail']).to.equal(
        'the memory limit of 512 MB was reached, and the kernel killed 1 process of the guest',
      )
      await sampleKills(500)
      expect((await own()).map(({ count }) => count as number)).to.deep.equal([1])
      lab.clockMs += 61_000
      await sampleKills(501)
      expect((await own()).map(({ count }) => count as number)).to.deep.equal([499])
      expect(agent.host.driver.running.has(hungry.uuid)).to.equal(true)
      expect((await read('/security/summary'))['by_type'].out_of_memory).to.be.greaterThan(0)
    })

    it('does not happen, but a guest that the kernel killed is started again with an alert', async () => {
      agent.host.driver.end(hungry.uuid, 'memory')
      await waitFor(() => agent.host.driver.running.has(hungry.uuid), { what: 'it to run again' })
      await gateway.fleet.caughtUp('host-a')
      const [row, ...rest] = await own()
      expect(rest).to.deep.equal([])
      expect(row).to.deep.include({ type: 'out_of_memory', severity: 'high', count: 1 })
      expect(row!['detail']).to.equal('the guest was killed: the memory limit of 512 MB was reached')
      const { data } = (await call('GET', '/tasks')).body as { data: Body[] }
      expect(data.find((task) => task['container_name'] === hungry.name)).to.deep.include({
        action: 'start',
        user: 'system',
      })
    })
  })
})
