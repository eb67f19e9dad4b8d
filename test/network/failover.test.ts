import { expect } from 'chai'
import { FailoverLab } from '../support/failover/failover-lab.js'
import { FailoverTrial } from '../support/failover/failover-trial.js'
import type { Fault } from '../support/failover/plan-faults.js'

const faults: readonly Fault[] = [
  { kind: 'gateway cut off from Redis', gateway: 1 },
  { kind: 'gateway killed', gateway: 2 },
  { kind: 'master cut off', gateway: 0 },
]
const load = { creations: 6, pauseMs: 1000, writesPerSecond: 10, cutMs: 3000, stopMs: 0 }

/** The short form of `scripts/bench --only failover`. It needs a network namespace of its own. */
describe('three gateways with Sentinels behind HAProxy', function () {
  let lab: FailoverLab
  before(async () => (lab = await FailoverLab.start({ agents: 3, realHosts: 0 })))
  after(() => lab?.stop())

  it('lose no acknowledged write, and execute no write twice, while gateways and Redis masters fail', async () => {
    const result = await new FailoverTrial(lab, { ...load, seed: 1, faults, log: () => undefined }).run()
    expect(Object.fromEntries(result.findings.lists)).to.deep.equal({
      ...{ lost: [], twice: [], stale: [], duplicated: [], fences: [], unexpected: [] },
    })
    expect(result.writes.acknowledged).to.be.greaterThan(20)
    expect(result.created).to.be.greaterThan(0)
    expect(result.events.missing, 'creations without an event about their end').to.equal(0)
    expect(result.fenced.calls, 'calls with an epoch').to.be.greaterThan(0)
  })
})
