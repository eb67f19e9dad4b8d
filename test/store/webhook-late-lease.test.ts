import { expect } from 'chai'
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { FleetView } from '../../gateway/fleet/contract.js'
import { Store } from '../../gateway/store/store.js'
import { Webhooks } from '../../gateway/webhooks/webhooks.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { WebhookReceiver } from '../support/gateway/webhook-receiver.js'
import { waitFor } from '../support/wait.js'

const id = 'hook'
const leaseMs = 4000
const policy = { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'test' }
const view = {
  ...{ hosts: () => [], guestsOf: () => [], operationsOn: () => [], alerts: () => [] },
  changes: { listen: () => () => undefined },
} as unknown as FleetView

/** A gate that lets calls wait while it is closed. */
class Gate {
  isOpen = true
  waiting = 0

  async pass(): Promise<void> {
    if (this.isOpen) return
    this.waiting++
    await waitFor(() => this.isOpen, { what: 'the gate is open' })
  }
}

describe('a gateway whose lease for webhooks expired because the store answered late', () => {
  let redis: TestRedis
  let receiver: WebhookReceiver
  let store: Store
  let webhooks: Webhooks
  const [claims, reads] = [new Gate(), new Gate()]
  before(async () => {
    redis = await startTestRedis()
    receiver = await WebhookReceiver.start()
    store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    slowDown(store)
    webhooks = new Webhooks({ store, secret: randomBytes(32), policy, log: silentLog, leaseMs })
    await store.connected(60_000)
    await webhooks.records.create(id, { name: 'one', url: receiver.url })
    webhooks.start(view, () => [])
  })
  after(async () => {
    await webhooks.close()
    await store.close()
    await receiver.down()
    await redis.stop()
  })

  /** Lets claims of the lease wait at the gate `claims`, and reads of requested deliveries at the gate `reads`. */
  function slowDown(slow: Store): void {
    const [transact, run] = [slow.transact.bind(slow), slow.run.bind(slow)]
    slow.transact = async (step, commands) => {
      if (step === 'take the lease webhook-lease') await claims.pass()
      return transact(step, commands)
    }
    slow.run = async (step, command) => {
      if (step === 'read requested deliveries') await reads.pass()
      return run(step, command)
    }
  }

  it('can store the results of deliveries as soon as it has renewed the lease', async () => {
    await webhooks.test(id)
    await receiver.type('webhook.test')
    reads.isOpen = false
    claims.isOpen = false
    await webhooks.test(id)
    await waitFor(() => reads.waiting > 0 && claims.waiting > 0, { what: 'both wait' })
    await (await redis.openStore()).client.del('btest:webhook-lease') // the next claim is a take-over
    await delay(leaseMs / 2)
    const { epoch } = webhooks.lease
    claims.isOpen = true
    await waitFor(() => webhooks.lease.held && webhooks.lease.epoch !== epoch, { what: 'the lease' })
    await waitFor(() => !webhooks.lease.held, { what: 'the end of the lease for this process' })
    reads.isOpen = true
    await waitFor(() => receiver.messages.length >= 2, { what: 'the second event' })
    await waitFor(async () => (await webhooks.deliveries(id)).waiting.length === 0, { what: 'no delivery waits' })
    expect(new Set(receiver.messages.map(({ body }) => body.id)).size).to.equal(2)
  })
})
