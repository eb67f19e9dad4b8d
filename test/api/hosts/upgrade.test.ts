import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { conflict } from '../../../shared/errors.js'
import type { Body } from '../../support/body.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { earlierVersion, UpgradeLab } from '../../support/gateway/upgrade-lab.js'
import { labVersion } from '../../support/memory/lab-fleet.js'

const hosts = ['host-a', 'host-b'] as const

/* The agents are real, and declare that they can be upgraded. The tests do the work of the installation script. */

describe('an upgrade of one host over HTTP', () => {
  let gateway: TestGateway
  let lab: UpgradeLab
  before(async () => {
    gateway = await startTestGateway({ hosts })
    lab = new UpgradeLab(gateway)
    lab.writePackages()
  })
  after(() => gateway.close())

  const rowOf = async (hostId: string): Promise<Body> => (await gateway.request('GET', `/hosts/${hostId}`)).body.data
  const upgrade = (hostId: string, body: object = {}, headers = {}): Promise<Reply> =>
    gateway.request('POST', `/hosts/${hostId}/upgrade`, { body, headers })
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]

  const hostId = 'host-a'
  beforeEach(async () => {
    await lab.install(hostId, earlierVersion)
    lab.writePackages()
    lab.packagesOf(hostId).orders.length = 0
  })

  it('is requested from the agent, shows each reported step, and ends with an event', async () => {
    const events = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey }, '?kinds=host')
    const { status, body } = await upgrade(hostId)
    expect([status, body.message]).to.deep.equal([202, `the host installs version ${labVersion}`])
    const expected = {
      state: 'running',
      step: 'starting',
      rollback: false,
      from: earlierVersion,
      to: labVersion,
      message: '',
    }
    expect(body.data.upgrade).to.include(expected)
    expect(lab.packagesOf(hostId).orders).to.have.length(1)
    expect(lab.packagesOf(hostId).orders[0]).to.include({ version: labVersion, rollback: false })
    for (const step of ['checking', 'downloading', 'installing']) {
      expect(await lab.report(hostId, step)).to.include({ host: hostId, status: 'online', version: earlierVersion })
      expect((await rowOf(hostId)).upgrade).to.include({ state: 'running', step })
    }
    await lab.install(hostId, labVersion, { previous: earlierVersion })
    expect(await lab.report(hostId, 'waiting')).to.include({ version: labVersion })
    await lab.report(hostId, 'done')
    const row = await rowOf(hostId)
    expect(row).to.include({ version: labVersion, previous_version: earlierVersion })
    expect(row.upgrade).to.include({ state: 'done', step: 'done' })
    const { data } = await events.type('host.upgraded')
    expect(data.data).to.include({ id: hostId, from: earlierVersion, to: labVersion, rollback: false })
    expect((await lab.report(hostId, 'failed', 'too late')).status).to.equal('online')
    expect((await rowOf(hostId)).upgrade.state).to.equal('done')
    events.close()
  })

  it('shows the reason for a failure, even while the host returns to the former version', async () => {
    const events = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey }, '?kinds=host')
    await upgrade(hostId)
    await lab.report(hostId, 'rolling_back', 'the agent does not start')
    await lab.report(hostId, 'waiting')
    expect((await rowOf(hostId)).upgrade).to.include({ step: 'rolling_back', message: 'the agent does not start' })
    await lab.report(hostId, 'failed', `the agent does not start; version ${earlierVersion} is installed again`)
    const { data } = await events.type('host.upgrade_failed')
    expect(data.data).to.include({
      message: `the agent does not start; version ${earlierVersion} is installed again`,
    })
    events.close()
  })

  it('can be rolled back to the packages on the host, even if the gateway has no packages', async () => {
    await lab.install(hostId, labVersion, { previous: earlierVersion })
    lab.removePackages()
    const { status, body } = await upgrade(hostId, { rollback: true })
    expect([status, body.data.upgrade.to, body.data.upgrade.rollback]).to.deep.equal([202, earlierVersion, true])
    expect(lab.packagesOf(hostId).orders[0]).to.include({ version: earlierVersion, rollback: true })
    await lab.report(hostId, 'done')
  })

  it('starts only once if the request is repeated', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const answers = [await upgrade(hostId, {}, headers), await upgrade(hostId, {}, headers)]
    expect(answers.map(({ status }) => status)).to.deep.equal([202, 202])
    expect(lab.packagesOf(hostId).orders).to.have.length(1)
    await lab.report(hostId, 'done')
  })

  it('is answered with 200 if the host already has the version of the gateway', async () => {
    await lab.install(hostId, labVersion)
    const { status, body } = await upgrade(hostId)
    expect([status, body.message]).to.deep.equal([200, `the host has version ${labVersion} already`])
    expect(lab.packagesOf(hostId).orders).to.have.length(0)
  })

  it('is refused before an earlier upgrade of the host has ended', async () => {
    await upgrade(hostId)
    expect(refusal(await upgrade(hostId))).to.deep.equal([409, 'upgrade_running'])
    await lab.report(hostId, 'failed', 'why')
    expect((await upgrade(hostId)).status).to.equal(202)
    await lab.report(hostId, 'failed', 'why')
  })

  it('is refused for an unknown or offline host', async () => {
    expect(refusal(await upgrade('h-none'))).to.deep.equal([404, 'not_found'])
    await gateway.fleet.setHostState(hostId, 'offline')
    expect(refusal(await upgrade(hostId))).to.deep.equal([503, 'host_offline'])
    await gateway.fleet.setHostState(hostId, 'online')
  })

  it('is refused if the agent does not report that it supports upgrades', async () => {
    await lab.install(hostId, earlierVersion, { supported: false })
    const answer = await upgrade(hostId)
    expect(refusal(answer)).to.deep.equal([409, 'upgrade_unsupported'])
    expect(answer.body.message).to.include('was not installed with the command of this gateway')
    expect((await rowOf(hostId)).features).to.deep.equal([
      'move',
      'move-offline',
      'move-live',
      'fence',
      'rotate-ca',
      'list-usage',
      'labels',
      'undelete',
      'placement',
      'run',
      'rename',
      'create-tags',
      'create-from-backup',
      'confirm-owners',
      'create-settings',
      'delete-copy',
      'export',
      'import-archive',
      'standby',
      'keep-copy',
      'move-history',
    ])
  })

  it('cannot be rolled back if the host has no packages of a previous version', async () => {
    expect(refusal(await upgrade(hostId, { rollback: true }))).to.deep.equal([409, 'no_previous_version'])
  })

  it('is refused if the gateway has no packages of its own version', async () => {
    lab.writePackages('9.9.9')
    const answer = await upgrade(hostId)
    expect(refusal(answer)).to.deep.equal([409, 'packages_outdated'])
    expect(answer.body.message).to.include('9.9.9')
    lab.removePackages()
    expect(refusal(await upgrade(hostId))).to.deep.equal([503, 'packages_missing'])
  })

  it('fails with the error of the agent if the agent refuses the upgrade, and records the refusal', async () => {
    lab.packagesOf(hostId).failure = conflict('upgrade_running', 'another version is being installed on this host')
    expect(refusal(await upgrade(hostId))).to.deep.equal([409, 'upgrade_running'])
    expect((await rowOf(hostId)).upgrade).to.include({
      state: 'failed',
      message: 'another version is being installed on this host',
    })
  })

  it('sends the agent a token that no other host can use to join', async () => {
    await upgrade(hostId)
    const { token } = lab.packagesOf(hostId).orders[0]!
    const directory = join(gateway.fleet.packagesDirectory, 'thief')
    const refused = await joinGateway(token, directory).catch((error: unknown) => error)
    expect(refused).to.have.property('code', 'join_token_invalid')
    await lab.report(hostId, 'done')
  })

  it('is recorded in the audit log', async () => {
    await upgrade(hostId)
    await lab.report(hostId, 'done')
    const { body } = await gateway.request('GET', '/audit-logs?action=host.upgrade&limit=1')
    expect(body.data[0]).to.include({ target: hostId })
    expect(body.data[0].detail).to.include(`upgrade from ${earlierVersion} to ${labVersion}`)
  })

  it('needs the scope to manage hosts', async () => {
    const key = await gateway.makeKey({ scopes: ['host:read'] })
    const answer = await gateway.request('POST', `/hosts/${hostId}/upgrade`, { key })
    expect(refusal(answer)).to.deep.equal([403, 'insufficient_scope'])
  })

  it('installs the requested version only if the gateway has its packages', async () => {
    await lab.install('host-a', earlierVersion)
    const start = (): Promise<unknown> =>
      gateway.fleet.upgrades.start('host-a', { id: randomUUID(), rollback: false, version: '9.9.9' })
    const refused = await start().catch((error: unknown) => error)
    expect(refused).to.have.property('code', 'packages_outdated')
    lab.writePackages('9.9.9')
    await start()
    expect(lab.packagesOf('host-a').orders.at(-1)).to.include({ version: '9.9.9' })
    await lab.report('host-a', 'failed', 'why')
    lab.writePackages()
  })

  it('fails if the host does not report in time that the installation has started', async () => {
    await lab.install('host-a', earlierVersion)
    await upgrade('host-a')
    await gateway.fleet.upgrades.endSilent(Date.now() + 60_000)
    expect((await rowOf('host-a')).upgrade.state).to.equal('running')
    await gateway.fleet.upgrades.endSilent(Date.now() + 4 * 60_000)
    const { state, message } = (await rowOf('host-a')).upgrade as { state: string; message: string }
    expect(state).to.equal('failed')
    expect(message).to.include('did not report the start of the installation')
  })
})
