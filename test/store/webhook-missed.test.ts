import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { createDescribe } from '../../gateway/api/events/describe.js'
import { WatchSnapshot } from '../../gateway/fleet/snapshot.js'
import { FleetState } from '../../gateway/fleet/view.js'
import { Deliverer } from '../../gateway/webhooks/deliverer.js'
import { defaultRetries } from '../../gateway/webhooks/delivery.js'
import { DeliveryQueue } from '../../gateway/webhooks/delivery-queue.js'
import { Lease } from '../../gateway/store/lease.js'
import { createTimeFormat } from '../../shared/time.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const hook = {
  id: 'hook',
  name: 'hook',
  url: 'https://example.com/',
  events: ['*'],
  disabled: false,
  sealed: '',
  createdAtMs: 1,
  changedAtMs: 1,
}
const host = {
  id: 'a',
  version: 1,
  name: 'a',
  address: 'a:1',
  draining: false,
  createdAtMs: 0,
  serials: ['1'],
  certificateNotAfterMs: 1,
}

describe('an event that happens while no gateway runs', () => {
  let redis: TestRedis
  let queue: DeliveryQueue
  let view: FleetState
  let deliverer: Deliverer | undefined

  beforeEach(async () => {
    redis = await startTestRedis()
    const store = await redis.openStore()
    const lease = new Lease(store, 'webhook-lease', 60_000)
    expect(await lease.take()).to.equal(true)
    queue = new DeliveryQueue(store, lease)
    view = new FleetState()
    view.setHost(host)
  })
  afterEach(async () => {
    await deliverer?.stop()
    await redis.stop()
  })

  const deliver = (): void => {
    const send = () => new Promise<never>(() => undefined)
    const describe = createDescribe(createTimeFormat('UTC'))
    const parts = { view, describe, queue, retries: defaultRetries, log: silentLog, send }
    deliverer = new Deliverer({ ...parts, records: () => [hook] })
  }
  const told = async (): Promise<string[]> => (await queue.load(hook.id)).map(({ type }) => type)
  /** Waits until the deliverer has processed everything that the fleet view contains now. */
  const lookedThrough = async (types = ['first', 'second']): Promise<void> => {
    for (const type of types) {
      const about = { id: type, eventId: type, type, key: host.id, guestUuid: '', body: '{}' }
      await queue.send({
        webhookId: hook.id,
        delivery: { ...about, createdAtMs: 1, attempts: 0, nextAtMs: 1 },
      })
      deliverer!.work()
      await waitFor(async () => (await told()).includes(type), { what: 'it is queued' })
    }
  }
  const guest = (revision: number): Guest => Guest.fromPartial({ uuid, id: 1, name: 'web', revision })
  const task = (revision: number): Operation =>
    Operation.fromPartial({ id: 'o1', subject: { kind: 'guest', id: uuid }, status: 'done', revision })

  /** Lets the host come online again and report a task and the guest. */
  const report = (revision: number): void => {
    const state = view.findState(host.id)!
    const snapshot = new WatchSnapshot()
    snapshot.add({ $case: 'operation', value: task(7) })
    snapshot.add({ $case: 'guest', value: guest(revision) })
    view.replace(state, snapshot)
    state.lastSeenMs = Date.now()
    view.setOnline(state, true)
  }

  it('is sent when its host is online again, even if the store already has newer states of the guests', async () => {
    await queue.add(new Map(), new Map([[host.id, 5]]))
    const state = view.findState(host.id)!
    view.recall(state, guest(9))
    deliver()
    await lookedThrough()
    report(9)
    await waitFor(async () => (await told()).includes('host.online'), { what: 'the host is back' })
    expect(await told()).to.include.members(['task.done', 'guest.updated'])
  })

  it('is queued for delivery only once, even if an answer of the store is lost', async () => {
    await queue.add(new Map(), new Map([[host.id, 5]]))
    const state = view.findState(host.id)!
    view.recall(state, guest(9))
    deliver()
    await lookedThrough()
    const add = queue.add.bind(queue)
    let isLost = false
    queue.add = async (...write) => {
      queue.add = add
      await add(...write)
      isLost = true
      throw new Error('the answer was lost')
    }
    report(9)
    await waitFor(() => isLost, { what: 'the lost answer' })
    await lookedThrough(['third', 'fourth'])
    expect((await told()).filter((type) => type === 'guest.updated')).to.have.length(1)
  })
})
