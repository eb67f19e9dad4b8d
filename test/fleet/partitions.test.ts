import { expect } from 'chai'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { LabFleet } from '../support/memory/lab-fleet.js'
import { PartitionTrial } from '../support/memory/partition-trial.js'
import { waitFor } from '../support/wait.js'

/* The long form with random failures is `scripts/bench --only partitions`. */

describe('hosts that fail, whose guests are restored elsewhere, and that return', () => {
  let trial: PartitionTrial
  before(async () => (trial = await PartitionTrial.start()))
  after(() => trial.close())

  for (const [title, absence] of [
    ['after a boot without a gateway', { afterMs: 1000, isolatedBoots: 1, isolatedMs: 3000 }],
    ['during the restore', { afterMs: 100, isolatedBoots: 0, isolatedMs: 0 }],
    ['after two boots without a gateway, while a target restarts', { afterMs: 50, isolatedBoots: 2, isolatedMs: 400 }],
  ] as const)
    it(`start no guest that runs elsewhere: return ${title}`, async () => {
      await trial.run({ host: 0, targetRestarts: absence.isolatedBoots === 2, ...absence })
      expect(trial.violations).to.deep.equal([])
    })
  it('have had at least one guest restored elsewhere, so that the tests prove something', () =>
    expect(trial.restored).to.be.above(0))
})

describe('a host that boots so fast that it is never shown as offline', () => {
  let redis: TestRedis
  let stateDir: string
  let fleet: LabFleet
  before(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'btest-fast-boot-'))
    redis = await startTestRedis()
    const store = await redis.openStore('btest:')
    const hosts = ['host-a', 'host-b']
    fleet = await LabFleet.start({ store, stateDir, log: silentLog, hosts, reconnectMs: 600_000 })
  })
  after(async () => {
    await fleet.close()
    await redis.stop()
    await rm(stateDir, { recursive: true, force: true })
  })

  it('starts its guests as soon as a gateway has compared their owners again', async () => {
    const agent = fleet.agentOf('host-a')
    const { uuid } = await fleet.addGuest()
    await waitFor(() => fleet.view.findState('host-a')?.confirmation?.hasOtherHosts, { what: 'the first comparison' })
    agent.parallel = 8
    await agent.powerOff()
    await agent.resume()
    await waitFor(() => agent.host.driver.running.has(uuid), { what: 'the guest after the boot' })
  })
})
