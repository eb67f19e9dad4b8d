import { expect } from 'chai'
import type { FleetView } from '../../gateway/fleet/contract.js'
import type { Store } from '../../gateway/store/store.js'
import { Lease } from '../../gateway/store/lease.js'
import { Deliverer } from '../../gateway/webhooks/deliverer.js'
import { defaultRetries } from '../../gateway/webhooks/delivery.js'
import { DeliveryQueue } from '../../gateway/webhooks/delivery-queue.js'
import type { WebhookRecord } from '../../gateway/webhooks/webhook-record.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

/** A queue whose removals fail `failures` times, as if the store were unavailable for a moment. */
class FailingQueue extends DeliveryQueue {
  failures = 0

  override async remove(webhookId: string): Promise<void> {
    if (this.failures-- > 0) throw new Error('the store is unavailable')
    await super.remove(webhookId)
  }
}

describe('the deliveries of a webhook that is removed', () => {
  let redis: TestRedis
  let store: Store
  let queue: FailingQueue
  let records: WebhookRecord[]
  let deliverer: Deliverer | undefined

  beforeEach(async () => {
    redis = await startTestRedis()
    store = await redis.openStore()
    const lease = new Lease(store, 'work', 600_000)
    expect(await lease.take()).to.equal(true)
    queue = new FailingQueue(store, lease)
    records = ['kept', 'gone'].map(recordOf)
    for (const { id } of records) await fill(id)
  })
  afterEach(async () => {
    await deliverer?.stop()
    deliverer = undefined
    await redis.stop()
  })

  /** Starts a deliverer as a restarted gateway does, for a fleet without hosts. */
  const deliver = (): Deliverer => {
    const view = { hosts: () => [], changes: { listen: () => () => undefined } } as unknown as FleetView
    const send = () => new Promise<never>(() => undefined)
    const parts = { view, describe: () => [], queue, retries: defaultRetries, log: silentLog, send }
    return (deliverer = new Deliverer({ ...parts, records: () => records }))
  }
  const fill = async (id: string): Promise<void> => {
    const about = { id: `d-${id}`, eventId: 'e', type: 'webhook.test', key: 'k', guestUuid: '', body: '{}' }
    const delivery = { ...about, number: 1, createdAtMs: Date.now(), attempts: 0, nextAtMs: Date.now() }
    await queue.end(id, { ...delivery, outcome: 'delivered' })
    await queue.update(id, { ...delivery, number: 2 })
  }
  const keys = async (): Promise<string[]> => {
    const found = new Set<string>()
    for await (const some of store.client.scanIterator({ MATCH: 'btest:webhook-*' }))
      for (const key of some) found.add(key.slice('btest:webhook-'.length))
    return [...found].sort()
  }
  const remove = async (): Promise<void> => {
    await queue.noteRemoved('gone')
    records = records.filter(({ id }) => id !== 'gone')
  }
  const onlyKept = async (): Promise<boolean> => (await keys()).join(' ') === 'log:kept queue:kept'

  it('are deleted when a gateway starts', async () => {
    await remove()
    expect(await keys()).to.deep.equal(['log:gone', 'log:kept', 'queue:gone', 'queue:kept', 'removed'])
    deliver()
    await waitFor(onlyKept, { what: 'all of it is gone' })
  })

  it('are deleted after the removal, even if the store fails during the deletion', async () => {
    const delivering = deliver()
    queue.failures = 2
    await remove()
    delivering.work()
    await waitFor(onlyKept, { what: 'all of it is gone' })
    expect(queue.failures).to.be.lessThan(0)
  })

  it('are kept if the removal was interrupted and the webhook still exists', async () => {
    await queue.noteRemoved('kept')
    await remove()
    deliver()
    await waitFor(async () => !(await keys()).includes('log:gone'), { what: 'the other is gone' })
    expect(await keys()).to.deep.equal(['log:kept', 'queue:kept', 'removed'])
  })
})

function recordOf(id: string): WebhookRecord {
  const times = { createdAtMs: 1, changedAtMs: 1 }
  return { id, name: id, url: 'https://example.com/', events: ['*'], disabled: true, sealed: '', ...times }
}
