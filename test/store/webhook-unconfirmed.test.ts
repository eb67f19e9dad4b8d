import { expect } from 'chai'
import type { FleetView } from '../../gateway/fleet/contract.js'
import { Lease } from '../../gateway/store/lease.js'
import { Store } from '../../gateway/store/store.js'
import { Deliverer } from '../../gateway/webhooks/deliverer.js'
import { defaultRetries } from '../../gateway/webhooks/delivery.js'
import { DeliveryQueue } from '../../gateway/webhooks/delivery-queue.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const hook = {
  ...{ id: 'hook', name: 'hook', url: 'https://example.com/', events: ['*'], disabled: false, sealed: '' },
  ...{ createdAtMs: 1, changedAtMs: 1 },
}
const view = { hosts: () => [], changes: { listen: () => () => undefined } } as unknown as FleetView

describe('queued webhook deliveries that no replica has confirmed', () => {
  let redis: TestRedis
  let unconfirming: Store
  let confirming: Store
  beforeEach(async () => {
    redis = await startTestRedis()
    unconfirming = await redis.openStore()
    confirming = new Store({ url: redis.url, prefix: 'btest:', log: silentLog, confirmingReplicas: 1 })
    await confirming.connected(60_000)
  })
  afterEach(async () => {
    await confirming.close()
    await redis.stop()
  })

  it('are not sent', async () => {
    const lease = new Lease(unconfirming, 'webhook-lease', 600_000)
    expect(await lease.take()).to.equal(true)
    const delivery = { id: 'd', number: 1, eventId: 'e', type: 'webhook.test', key: 'k', guestUuid: '', body: '{}' }
    const times = { createdAtMs: Date.now(), attempts: 0, nextAtMs: 0 }
    await new DeliveryQueue(unconfirming, lease).update(hook.id, { ...delivery, ...times })
    let sent = 0
    const send = (): Promise<never> => {
      sent++
      return new Promise<never>(() => undefined)
    }
    const queue = new DeliveryQueue(confirming, lease)
    const parts = { view, describe: () => [], queue, retries: defaultRetries, log: silentLog, send }
    const deliverer = new Deliverer({ ...parts, records: () => [hook] })
    try {
      await waitFor(() => sent > 0 || confirming.unconfirmed > 1, { what: 'two attempts without a confirmation' })
      expect(sent).to.equal(0)
    } finally {
      await deliverer.stop()
    }
  })
})
