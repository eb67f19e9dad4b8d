import { expect } from 'chai'
import { GuestCache } from '../../gateway/fleet/guest-cache.js'
import type { HostRecord } from '../../gateway/fleet/host-record.js'
import { HostStore } from '../../gateway/fleet/host-store.js'
import type { WatcherOptions } from '../../gateway/fleet/host-watcher.js'
import { MoveStore } from '../../gateway/fleet/moves/move-store.js'
import { GuestOwners } from '../../gateway/fleet/placement/guest-owners.js'
import { GuestRegistry } from '../../gateway/fleet/placement/guest-registry.js'
import { FleetState } from '../../gateway/fleet/view.js'
import { WatchedHosts } from '../../gateway/fleet/watched-hosts.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const id = 'host'
/** A host that has not joined, so that the gateway does not connect to it. */
const recordOf = (version: number, name: string): HostRecord => ({
  ...{ id, version, name, address: 'a:1', draining: false, createdAtMs: 0 },
  ...{ serials: [], certificateNotAfterMs: 0 },
})

/*
 * A failover is simulated by emptying the Redis server. The tested gateway requires that a replica confirms its writes.
 * No replica exists, so these writes fail. The test itself writes through `other`, which requires no confirmation.
 */
describe('the hosts of a gateway after a Redis failover', () => {
  let redis: TestRedis
  let other: Store
  let store: Store
  let view: FleetState
  let hosts: WatchedHosts
  beforeEach(async () => {
    redis = await startTestRedis()
    other = await redis.openStore()
    store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog, confirmingReplicas: 1 })
    view = new FleetState()
    const owners = new GuestOwners({
      view,
      registry: new GuestRegistry(store),
      moves: new MoveStore(store),
      log: silentLog,
    })
    const cache = new GuestCache(store, silentLog, view)
    const watcherOptions = {} as Omit<WatcherOptions, 'expectedMs'> // not used: no watcher is created
    hosts = new WatchedHosts({ view, store: new HostStore(store), cache, log: silentLog, owners, watcherOptions })
    await store.connected(60_000)
  })
  afterEach(async () => {
    await store.close()
    await redis.stop()
  })

  const write = (record: HostRecord): Promise<number> =>
    other.client.hSet(other.key('hosts'), id, JSON.stringify(record))
  const stored = async (): Promise<string | undefined> => {
    const text = await other.client.hGet(other.key('hosts'), id)
    return text === null ? undefined : (JSON.parse(text) as HostRecord).name
  }
  const shown = (): string | undefined => view.findHost(id)?.name
  /** Replaces the present server by an empty one. */
  const replaceServer = async (): Promise<void> => {
    const back = new Promise<void>((resolve) => store.on('up', resolve))
    await redis.wipe()
    await back
  }

  for (const version of [8, 9])
    it(`are read from the new master if they have version ${version} there, although they had version 9 at the old master`, async () => {
      await write(recordOf(9, 'unconfirmed'))
      await hosts.poll()
      await replaceServer()
      await write(recordOf(version, 'acknowledged'))
      await hosts.poll()
      expect([shown(), await stored()]).to.deep.equal(['acknowledged', 'acknowledged'])
    })

  it('include a removed host again if the new master does not know of its removal', async () => {
    await write(recordOf(1, 'kept'))
    await hosts.poll()
    await other.client.hSet(other.key('removed-hosts'), id, '1')
    await hosts.poll()
    expect(shown()).to.equal(undefined)
    await replaceServer()
    await write(recordOf(1, 'kept'))
    await hosts.poll()
    expect(shown()).to.equal('kept')
  })

  it('are written to the new master if this master does not contain them', async () => {
    await write(recordOf(9, 'lost'))
    await hosts.poll()
    await replaceServer()
    await hosts.poll()
    await waitFor(async () => (await stored()) === 'lost', { what: 'the host in the store' })
  })
})
