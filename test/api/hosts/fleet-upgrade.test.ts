import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import type { Fleet, HostUpgrades, UpgradeRequest } from '../../../gateway/fleet/contract.js'
import { FleetUpgrades } from '../../../gateway/upgrades/fleet-upgrades.js'
import { Store } from '../../../gateway/store/store.js'
import { conflict } from '../../../shared/errors.js'
import { UnansweredError } from '../../../shared/grpc-errors.js'
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

describe('fleet upgrades over HTTP', () => {
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
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]

  /** Starts a second `FleetUpgrades`, as another gateway has. With the default prefix, both use the same data. */
  async function startWorker(prefix = 'btest:'): Promise<FleetUpgrades> {
    const store = new Store({ url: gateway.redis.url, prefix, log: silentLog })
    const worker = new FleetUpgrades({ store, log: silentLog, everyMs: 20, leaseMs: 400 })
    store.start()
    stores.push(store)
    await waitFor(() => worker.isKnown, { what: 'the stored run' })
    return worker
  }

  describe('an upgrade of all hosts', () => {
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

    it('begins with the canary host, and continues with several hosts at a time', async () => {
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

    it('continues with a higher lease epoch if a host knows a higher epoch than the store', async () => {
      await gateway.fleet.agent('host-a').hosts.describe({}, { work: 'fleet-upgrade-worker', epoch: 500 })
      await fleet('', { parallel: 1 })
      await lab.complete('host-a', 1)
      await reaches('a done, b upgrading, c waiting, d waiting', 'running')
      expect(ordersOf('host-a')).to.equal(1)
      await fleet('/cancel')
      await lab.complete('host-b', 1)
      await reaches('a done, b done, c skipped, d skipped', 'canceled')
    })

    it('stops at the first failed host, and continues with this host on request', async () => {
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

    it('does not start on another host while it is paused', async () => {
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

    it('can be rolled back, but only on the upgraded hosts', async () => {
      await fleet('', { parallel: 1 })
      await lab.complete('host-a', 1)
      await lab.fail('host-b', 1, 'why')
      await reaches('a done, b failed, c waiting, d waiting', 'stopped')
      expect((await fleet('/rollback')).body.data.action).to.equal('rollback')
      await lab.complete('host-a', 2)
      await reaches('a done, b skipped, c skipped, d skipped', 'done')
      expect(lab.packagesOf('host-a').orders[1]).to.include({ version: earlierVersion, rollback: true })
      expect((await gateway.request('GET', '/hosts/host-a')).body.data.version).to.equal(earlierVersion)
      expect(refusal(await fleet('/rollback'))).to.deep.equal([409, 'invalid_state'])
    })

    it('skips hosts that are offline or cannot be upgraded, and shows the reason', async () => {
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

  describe('an upgrade with several gateways', () => {
    it('continues at another gateway on the same store, and upgrades no host twice', async () => {
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

    /** Makes the fleet of a gateway of this version. `start` simulates the request to an agent. */
    const fleetOf = (version: string, start: HostUpgrades['start']): Fleet => {
      const ok = (): Promise<void> => Promise.resolve()
      const upgrades: HostUpgrades = { version, start, checkPackages: ok, endSilent: ok }
      return { view: gateway.fleet.view, isComplete: true, expectedConnections: ok, upgrades } as unknown as Fleet
    }

    it('installs the version with which it began, even if a gateway of another version continues it', async () => {
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

    it('waits while a separate upgrade of one of the hosts runs', async () => {
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
  })
})
