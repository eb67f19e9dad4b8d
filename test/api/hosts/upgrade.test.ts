import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { joinGateway } from '../../../agent/enrollment/join.js'
import type { Fleet, HostUpgrades, UpgradeRequest } from '../../../gateway/fleet/contract.js'
import { FleetUpgrades } from '../../../gateway/upgrades/fleet-upgrades.js'
import { Store } from '../../../gateway/store/store.js'
import { conflict } from '../../../shared/errors.js'
import { UnansweredError } from '../../../shared/grpc-errors.js'
import type { Body } from '../../support/body.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { silentLog } from '../../support/gateway/redis.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { earlierVersion, UpgradeLab } from '../../support/gateway/upgrade-lab.js'
import { labVersion } from '../../support/memory/lab-fleet.js'
import { waitFor } from '../../support/wait.js'

const hosts = ['host-a', 'host-b', 'host-c', 'host-d'] as const

interface Run {
  readonly state: string
  readonly hosts: readonly { readonly name: string; readonly state: string; readonly message: string }[]
}

/* The agents are real, and declare that they can be upgraded. The tests do the work of the installation script. */

describe('upgrades of hosts over HTTP', () => {
  let gateway: TestGateway
  let lab: UpgradeLab
  before(async () => {
    gateway = await startTestGateway({ hosts })
    lab = new UpgradeLab(gateway)
    lab.writePackages()
  })
  after(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await gateway.close()
  })

  const stores: Store[] = []
  const rowOf = async (hostId: string): Promise<Body> => (await gateway.request('GET', `/hosts/${hostId}`)).body.data
  const upgrade = (hostId: string, body: object = {}, headers = {}): Promise<Reply> =>
    gateway.request('POST', `/hosts/${hostId}/upgrade`, { body, headers })
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]

  /** Starts a second `FleetUpgrades`, like that of another gateway. With the default prefix, both use the same data. */
  async function startWorker(prefix = 'btest:'): Promise<FleetUpgrades> {
    const store = new Store({ url: gateway.redis.url, prefix, log: silentLog })
    const worker = new FleetUpgrades({ store, log: silentLog, everyMs: 20, leaseMs: 400 })
    store.start()
    stores.push(store)
    await waitFor(() => worker.isKnown, { what: 'the stored run' })
    return worker
  }

  describe('the upgrade of one host', () => {
    const hostId = 'host-a'
    beforeEach(async () => {
      await lab.install(hostId, earlierVersion)
      lab.writePackages()
      lab.packagesOf(hostId).orders.length = 0
    })

    it('sends the order to the agent, shows each reported step, and ends with an event', async () => {
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

    it('shows the reason of a failure, also while the host returns to its former version', async () => {
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

    it('can be rolled back to the version whose packages the host retains, even if the gateway has no packages', async () => {
      await lab.install(hostId, labVersion, { previous: earlierVersion })
      lab.removePackages()
      const { status, body } = await upgrade(hostId, { rollback: true })
      expect([status, body.data.upgrade.to, body.data.upgrade.rollback]).to.deep.equal([202, earlierVersion, true])
      expect(lab.packagesOf(hostId).orders[0]).to.include({ version: earlierVersion, rollback: true })
      await lab.report(hostId, 'done')
    })

    it('starts once for a repeated request', async () => {
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

    it('is refused until an earlier upgrade of the host has ended', async () => {
      await upgrade(hostId)
      expect(refusal(await upgrade(hostId))).to.deep.equal([409, 'upgrade_running'])
      await lab.report(hostId, 'failed', 'why')
      expect((await upgrade(hostId)).status).to.equal(202)
      await lab.report(hostId, 'failed', 'why')
    })

    it('is refused for an unknown host and for a host that is offline', async () => {
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
      expect((await rowOf(hostId)).features).to.deep.equal(['move', 'fence', 'rotate-ca'])
    })

    it('cannot be rolled back if the host retains no packages of a previous version', async () => {
      expect(refusal(await upgrade(hostId, { rollback: true }))).to.deep.equal([409, 'no_previous_version'])
    })

    it('is refused if the gateway has no packages, or packages of another version than its own', async () => {
      lab.writePackages('9.9.9')
      const answer = await upgrade(hostId)
      expect(refusal(answer)).to.deep.equal([409, 'packages_outdated'])
      expect(answer.body.message).to.include('9.9.9')
      lab.removePackages()
      expect(refusal(await upgrade(hostId))).to.deep.equal([503, 'packages_missing'])
    })

    it('fails with the error of the agent if the agent refuses the upgrade, and the refusal is recorded', async () => {
      lab.packagesOf(hostId).failure = conflict('upgrade_running', 'another version is being installed on this host')
      expect(refusal(await upgrade(hostId))).to.deep.equal([409, 'upgrade_running'])
      expect((await rowOf(hostId)).upgrade).to.include({
        state: 'failed',
        message: 'another version is being installed on this host',
      })
    })

    it('sends the agent a token with which no other host can join', async () => {
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
  })

  describe('the upgrade of the fleet', () => {
    const fleet = (command = '', body: object = {}): Promise<Reply> =>
      gateway.request('POST', `/fleet/upgrade${command}`, { body })
    const read = async (): Promise<Run> => (await gateway.request('GET', '/fleet/upgrade')).body.data as Run
    const statesOf = (run: Run): string => run.hosts.map(({ name, state }) => `${name.slice(-1)} ${state}`).join(', ')
    const reaches = (states: string, state: string): Promise<unknown> =>
      waitFor(
        async () => {
          const run = await read()
          return statesOf(run) === states && run.state === state
        },
        { what: `${state}: ${states}` },
      )
    const ordersOf = (hostId: string): number => lab.packagesOf(hostId).orders.length

    beforeEach(async () => {
      lab.writePackages()
      for (const hostId of hosts) {
        lab.packagesOf(hostId).orders.length = 0
        await lab.install(hostId, earlierVersion)
      }
    })

    it('does not exist at first', async () => {
      expect(await read()).to.deep.include({ state: 'none', hosts: [] })
      expect(refusal(await fleet('/pause'))).to.deep.equal([409, 'invalid_state'])
    })

    it('begins with the canary host, and continues with several hosts at a time until all are upgraded', async () => {
      const { status, body } = await fleet('', { parallel: 2, canary_host_id: 'host-b' })
      expect([status, body.data.state, body.data.canary_host_id]).to.deep.equal([202, 'running', 'host-b'])
      await reaches('a waiting, b upgrading, c waiting, d waiting', 'running')
      expect(refusal(await fleet())).to.deep.equal([409, 'upgrade_running'])
      await lab.complete('host-b', 1)
      await reaches('a upgrading, b done, c upgrading, d waiting', 'running')
      expect(ordersOf('host-d')).to.equal(0)
      await lab.complete('host-a', 1)
      await reaches('a done, b done, c upgrading, d upgrading', 'running')
      await lab.complete('host-c', 1)
      await lab.complete('host-d', 1)
      await reaches('a done, b done, c done, d done', 'done')
      expect((await read()).hosts[0]).to.include({ from: earlierVersion, version: labVersion, step: 'done' })
      expect(refusal(await fleet())).to.deep.equal([409, 'up_to_date'])
    })

    it('continues with a higher lease epoch if a host knows a higher epoch than the store contains', async () => {
      await gateway.fleet.agent('host-a').hosts.describe({}, { work: 'fleet-upgrade-worker', epoch: 500 })
      await fleet('', { parallel: 1 })
      await lab.complete('host-a', 1)
      await reaches('a done, b upgrading, c waiting, d waiting', 'running')
      expect(ordersOf('host-a')).to.equal(1)
      await fleet('/cancel')
      await lab.complete('host-b', 1)
      await reaches('a done, b done, c skipped, d skipped', 'canceled')
    })

    it('stops at the first host whose upgrade fails, and continues with this host on request', async () => {
      await fleet('', { parallel: 1 })
      await lab.fail('host-a', 1, 'the agent does not start')
      await reaches('a failed, b waiting, c waiting, d waiting', 'stopped')
      expect((await read()).hosts[0]?.message).to.equal('the agent does not start')
      expect((await fleet('/resume')).body.data.state).to.equal('running')
      await lab.complete('host-a', 2)
      await reaches('a done, b upgrading, c waiting, d waiting', 'running')
      await fleet('/cancel')
      await lab.complete('host-b', 1)
      await reaches('a done, b done, c skipped, d skipped', 'canceled')
    })

    it('starts on no further host while it is paused', async () => {
      await fleet()
      await reaches('a upgrading, b waiting, c waiting, d waiting', 'running')
      expect((await fleet('/pause')).body.data.state).to.equal('paused')
      await lab.complete('host-a', 1)
      await reaches('a done, b waiting, c waiting, d waiting', 'paused')
      expect(refusal(await fleet('/pause'))).to.deep.equal([409, 'invalid_state'])
      await fleet('/resume')
      await reaches('a done, b upgrading, c upgrading, d waiting', 'running')
      await fleet('/cancel')
      for (const hostId of ['host-b', 'host-c']) await lab.complete(hostId, 1)
      await reaches('a done, b done, c done, d skipped', 'canceled')
    })

    it('can be rolled back on the hosts that it has upgraded, and on no others', async () => {
      await fleet('', { parallel: 1 })
      await lab.complete('host-a', 1)
      await lab.fail('host-b', 1, 'why')
      await reaches('a done, b failed, c waiting, d waiting', 'stopped')
      expect((await fleet('/rollback')).body.data.action).to.equal('rollback')
      await lab.complete('host-a', 2)
      await reaches('a done, b skipped, c skipped, d skipped', 'done')
      expect(lab.packagesOf('host-a').orders[1]).to.include({ version: earlierVersion, rollback: true })
      expect((await rowOf('host-a')).version).to.equal(earlierVersion)
      expect(refusal(await fleet('/rollback'))).to.deep.equal([409, 'invalid_state'])
    })

    it('skips hosts that are offline or cannot be upgraded, and says why', async () => {
      await lab.install('host-b', earlierVersion, { supported: false })
      await gateway.fleet.setHostState('host-c', 'offline')
      await fleet('', { parallel: 3 })
      await lab.complete('host-a', 1)
      await lab.complete('host-d', 1)
      await reaches('a done, b skipped, c skipped, d done', 'done')
      const messages = (await read()).hosts.map(({ message }) => message)
      expect(messages.slice(1, 3)).to.deep.equal([
        'the gateway cannot upgrade the agent of this host',
        'the host is offline',
      ])
      await gateway.fleet.setHostState('host-c', 'online')
    })

    it('is refused if the canary host cannot be upgraded, or if the gateway has no packages', async () => {
      await lab.install('host-b', earlierVersion, { supported: false })
      for (const [canary, expected] of [
        ['host-b', [409, 'invalid_state']],
        ['h-none', [400, 'invalid_field']],
      ] as const)
        expect(refusal(await fleet('', { canary_host_id: canary }))).to.deep.equal(expected)
      lab.removePackages()
      expect(refusal(await fleet())).to.deep.equal([503, 'packages_missing'])
    })

    it('stops at a host whose agent refuses the upgrade', async () => {
      lab.packagesOf('host-a').failure = conflict('upgrade_running', 'dpkg is busy')
      await fleet()
      await reaches('a failed, b waiting, c waiting, d waiting', 'stopped')
      expect((await read()).hosts[0]?.message).to.include('dpkg is busy')
    })
  })

  describe('when the gateway stops or the host sends no report', () => {
    it('continue at another gateway on the same store, and no host is upgraded twice', async () => {
      for (const hostId of hosts) {
        lab.packagesOf(hostId).orders.length = 0
        await lab.install(hostId, earlierVersion)
      }
      lab.writePackages()
      await gateway.fleetUpgrades.close()
      const first = await startWorker()
      const second = await startWorker()
      await first.begin(gateway.fleet, { id: randomUUID(), parallel: 4, startedBy: 'test' })
      first.start(gateway.fleet)
      await lab.complete('host-a', 1)
      await waitFor(() => lab.packagesOf('host-d').orders.length === 1, { what: 'the last order' })
      second.start(gateway.fleet)
      await first.close()
      for (const hostId of ['host-b', 'host-c', 'host-d']) await lab.complete(hostId, 1)
      await waitFor(() => second.current?.state === 'done', { what: 'the end' })
      expect(hosts.map((hostId) => lab.packagesOf(hostId).orders.length)).to.deep.equal([1, 1, 1, 1])
      await second.close()
    })

    /** Makes the fleet of a gateway of this version. `start` simulates the order to an agent. */
    const fleetOf = (version: string, start: HostUpgrades['start']): Fleet => {
      const ok = (): Promise<void> => Promise.resolve()
      const upgrades: HostUpgrades = { version, start, checkPackages: ok, endSilent: ok }
      return { view: gateway.fleet.view, isComplete: true, expectedConnections: ok, upgrades } as unknown as Fleet
    }

    it('install the version with which they began, even if a gateway of another version continues them', async () => {
      for (const hostId of hosts) await lab.install(hostId, earlierVersion)
      const first = await startWorker('btest-version:')
      const second = await startWorker('btest-version:')
      const fleet = fleetOf(labVersion, () => Promise.reject(new UnansweredError(false, undefined)))
      await first.begin(fleet, { id: randomUUID(), parallel: 1, startedBy: 'test' })
      first.start(fleet)
      await waitFor(() => first.current?.hosts[0]?.state === 'upgrading', { what: 'the first host' })
      await first.close()
      const requests: UpgradeRequest[] = []
      const start = async (_hostId: string, request: UpgradeRequest): Promise<'started'> => {
        requests.push(request)
        return 'started'
      }
      second.start(fleetOf('9.9.9', start))
      await waitFor(() => requests.length > 0, { what: 'the start at the second gateway' })
      await second.close()
      expect(requests[0]).to.include({ version: labVersion, rollback: false })
    })

    it('wait while another upgrade of the host is running', async () => {
      for (const hostId of hosts) await lab.install(hostId, earlierVersion)
      const worker = await startWorker('btest-busy:')
      let calls = 0
      const start = async (): Promise<'started'> => {
        if (++calls < 3) throw conflict('upgrade_running', 'the agent is being upgraded already')
        return 'started'
      }
      const fleet = fleetOf(labVersion, start)
      await worker.begin(fleet, { id: randomUUID(), parallel: 1, startedBy: 'test' })
      worker.start(fleet)
      await waitFor(() => calls >= 3, { what: 'the third call' })
      expect(worker.current?.hosts[0]).to.include({ state: 'upgrading', message: '' })
      await worker.close()
    })

    it('install the version that the request names if the gateway has the packages of this version, and are refused otherwise', async () => {
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

    it('end as failed if the host does not report the start of the installation in time', async () => {
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
})
