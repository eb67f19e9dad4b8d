import { expect } from 'chai'
import { FailoverGateway } from '../support/gateway/failover-gateway.js'
import { FailoverLoad } from '../support/gateway/failover-load.js'
import { RedisLab } from '../support/gateway/redis-lab.js'
import { waitFor } from '../support/wait.js'

describe('a gateway on Redis with Sentinels', () => {
  let lab: RedisLab
  let gateway: FailoverGateway
  before(async () => {
    lab = await RedisLab.start()
    gateway = await FailoverGateway.start(lab.config)
  })
  after(async () => {
    await gateway.close()
    await lab.stop()
  })

  const valueOf = async (metric: string): Promise<number> => {
    const line = (await gateway.metrics()).split('\n').find((one) => one.startsWith(`${metric} `))
    return Number(line?.split(' ')[1])
  }

  it('loses no acknowledged request, and executes none twice, while Redis masters are killed or cut off', async () => {
    const write = (name: string): Promise<boolean> => gateway.createKey(name)
    const load = new FailoverLoad({ writers: 4, pauseMs: 20, repeats: true, write })
    const faults = [
      (master: number) => lab.kill(master),
      async (master: number) => lab.isolate(master),
      async (master: number) => lab.cut(master),
    ]
    for (const fail of faults) {
      await lab.whole()
      const master = await lab.master()
      const before = load.acknowledged.size
      await fail(master)
      await waitFor(async () => (await lab.master()) !== master, { what: 'another master' })
      await waitFor(() => load.acknowledged.size > before + 20, { what: 'requests succeed again' })
      lab.heal()
      if (fail === faults[0]) lab.restart(master)
    }
    await lab.whole()
    await load.end()
    const names = await gateway.keyNames()
    const missing = [...load.acknowledged].filter((name) => !names.includes(name))
    expect(missing, `of ${load.acknowledged.size} acknowledged requests`).to.deep.equal([])
    expect(new Set(names).size, 'names of different keys').to.equal(names.length)
  })

  it('exports metrics of failovers, replicas, their lag and the epochs of its leases', async () => {
    await lab.whole()
    expect(await valueOf('berth_store_failovers_total')).to.be.at.least(3)
    await waitFor(async () => (await valueOf('berth_store_replicas')) === 2, { what: 'two replicas' })
    expect(await valueOf('berth_store_replication_lag_bytes')).to.be.at.least(0)
    await waitFor(async () => (await valueOf('berth_lease_held{lease="webhook-lease"}')) === 1, { what: 'the lease' })
    expect(await valueOf('berth_lease_epoch{lease="webhook-lease"}')).to.be.at.least(1)
  })
})
