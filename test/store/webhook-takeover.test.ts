import { expect } from 'chai'
import { randomBytes } from 'node:crypto'
import type { FleetView } from '../../gateway/fleet/contract.js'
import { Lease } from '../../gateway/store/lease.js'
import { Store } from '../../gateway/store/store.js'
import { DeliveryQueue } from '../../gateway/webhooks/delivery-queue.js'
import { Webhooks } from '../../gateway/webhooks/webhooks.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { WebhookReceiver } from '../support/gateway/webhook-receiver.js'

const id = 'hook'
const policy = { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'test' }
const view = {
  ...{ hosts: () => [], guestsOf: () => [], operationsOn: () => [], alerts: () => [] },
  changes: { listen: () => () => undefined },
} as unknown as FleetView

describe('a gateway that takes over webhook deliveries again', () => {
  let redis: TestRedis
  let receiver: WebhookReceiver
  let store: Store
  let webhooks: Webhooks
  before(async () => {
    redis = await startTestRedis()
    receiver = await WebhookReceiver.start()
    store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    webhooks = new Webhooks({ store, secret: randomBytes(32), policy, log: silentLog, leaseMs: 600_000 })
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

  /** Acts as another gateway: takes over the lease, queues an event, and releases the lease. */
  const queueElsewhere = async (eventId: string): Promise<void> => {
    const other = await redis.openStore()
    await other.client.del('btest:webhook-lease') // simulates that the lease expires
    const lease = new Lease(other, 'webhook-lease', 600_000)
    expect(await lease.take()).to.equal(true)
    const about = { id: 'delivery', number: 2, eventId, type: 'webhook.test', key: 'k', guestUuid: '' }
    const times = { createdAtMs: Date.now(), attempts: 0, nextAtMs: 0 }
    await new DeliveryQueue(other, lease).update(id, { ...about, ...times, body: JSON.stringify({ id: eventId }) })
    await lease.release()
  }

  it('sends the deliveries that another gateway has queued in the meantime', async () => {
    await webhooks.test(id)
    await receiver.type('webhook.test')
    await queueElsewhere('evt_other')
    await webhooks.records.update(id, { name: 'another name' }, false) // makes the gateway take the lease again
    await receiver.wait(({ body }) => body.id === 'evt_other', 'the event of the other gateway')
  })
})
