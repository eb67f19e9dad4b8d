import { expect } from 'chai'
import { MoveStore, type StoredMove } from '../../gateway/fleet/moves/move-store.js'
import { GuestOwners } from '../../gateway/fleet/placement/guest-owners.js'
import { GuestRegistry } from '../../gateway/fleet/placement/guest-registry.js'
import { roomLifetimeMs, roomSettleMs, type ReservedRoom } from '../../gateway/fleet/placement/plan-rooms.js'
import { RoomStore } from '../../gateway/fleet/placement/room-store.js'
import { FleetState } from '../../gateway/fleet/view.js'
import type { Store } from '../../gateway/store/store.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'

const uuid = 'u1'
const move: StoredMove = { id: 'm1', uuid, fromHostId: 'a', toHostId: 'b', beganAtMs: 1 }

describe('moves in the store', function () {
  let redis: TestRedis
  let store: Store
  let registry: GuestRegistry
  let moves: MoveStore
  let run = 0
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())
  beforeEach(async () => {
    store = await redis.openStore(`btest${++run}:`)
    registry = new GuestRegistry(store)
    moves = new MoveStore(store)
    await registry.claim('a', [{ uuid, id: 1, name: 'web' }])
  })

  const decided = async () => (await moves.find(uuid))?.decided

  it('keep their first decision and refuse a second decision', async () => {
    await moves.begin(move, 'web')
    expect(await moves.decide(move, 'switch')).to.equal(true)
    expect(await moves.decide(move, 'cancel')).to.equal(false)
    expect(await decided()).to.deep.equal({ ownerId: 'b', generation: 1 })
    expect(await moves.readGeneration(uuid)).to.equal(1)
  })

  it('are refused for a guest until both hosts know the result of its previous move', async () => {
    await moves.begin(move, 'web')
    await moves.decide(move, 'cancel')
    expect(await codeOf(moves.begin({ ...move, id: 'm2' }, 'web'))).to.equal('guest_moving')
    await moves.forget(move)
    expect(await codeOf(moves.begin({ ...move, id: 'm2' }, 'web'))).to.equal('ok')
  })

  it('are refused while the guest is being renamed, and if they contain a name that is not the present name of the guest', async () => {
    await registry.names.reserve(uuid, 'new')
    expect(await codeOf(moves.begin(move, 'web'))).to.equal('invalid_state')
    await registry.names.release(uuid, 'new')
    expect(await codeOf(moves.begin(move, 'old'))).to.equal('invalid_state')
    expect(await codeOf(moves.begin(move, 'web'))).to.equal('ok')
  })

  it('can be canceled even after the guest was deleted', async () => {
    await moves.begin(move, 'web')
    await registry.release('a', [uuid])
    expect(await moves.decide(move, 'cancel')).to.equal(true)
    expect(await decided()).to.deep.equal({ ownerId: 'a', generation: 1 })
    expect(await store.client.hExists(store.key('guests'), uuid)).to.equal(0)
  })

  it('return a guest to its source even if the target was removed', async () => {
    for (const isRemoved of [false, true]) {
      await moves.begin(move, 'web')
      await moves.decide(move, 'switch')
      const { generation } = (await decided())!
      if (isRemoved) await registry.releaseHost('b')
      expect(await moves.decide(move, 'return')).to.equal(true)
      expect(await decided()).to.deep.equal({ ownerId: 'a', generation: generation + 1 })
      expect(await moves.decide(move, 'return')).to.equal(false)
      await moves.forget(move)
    }
  })

  it('leave the guest on its source if the store loses the moves and no other host owns the guest', async () => {
    const lost = { uuid, hostId: 'a', moveId: 'm1', generation: 0 }
    await moves.begin(move, 'web')
    expect(await moves.recover(lost)).to.equal(false)
    await moves.decide(move, 'switch')
    await moves.forget(move)
    expect(await moves.recover(lost)).to.equal(false)
    await registry.release('b', [uuid])
    expect(await moves.recover(lost)).to.equal(true)
    expect(await decided()).to.deep.equal({ ownerId: 'a', generation: 2 })
    expect(await moves.recover(lost)).to.equal(false)
  })

  it('confirm a decision only if the store still contains the decision', async () => {
    await moves.begin(move, 'web')
    await moves.decide(move, 'switch')
    const stored = (await moves.find(uuid))!
    expect(await moves.confirmDecided(stored)).to.equal(true)
    expect(await moves.confirmDecided({ ...stored, decided: { ownerId: 'a', generation: 1 } })).to.equal(false)
    await moves.forget(move)
    expect(await moves.confirmDecided(stored)).to.equal(false)
  })

  describe('keep resources reserved', () => {
    const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
    let rooms: RoomStore
    beforeEach(async () => {
      rooms = new RoomStore(store)
      const room: ReservedRoom = { hostId: 'b', limits, uuid, untilMs: Date.now() + roomLifetimeMs }
      await rooms.change(() => ({ changes: new Map([['m1', room]]), result: undefined }))
      await moves.begin(move, 'web')
    })
    const leftMs = async (): Promise<number> => ((await rooms.list()).get('m1')?.untilMs ?? 0) - Date.now()

    it('on the target until all gateways can know that the target has the guest', async () => {
      const hourMs = 3_600_000
      expect(await leftMs()).to.be.above(hourMs)
      await moves.decide(move, 'switch')
      expect(await leftMs()).to.be.above(hourMs)
      await moves.forget(move)
      expect((await rooms.list()).size).to.equal(1)
      expect(await leftMs()).to.be.at.most(roomSettleMs)
    })

    it('only until the decision that the source stays the owner', async () => {
      await moves.decide(move, 'cancel')
      expect((await rooms.list()).size).to.equal(0)
    })

    it('only until the decision that the guest returns to its source', async () => {
      await moves.decide(move, 'switch')
      await moves.decide(move, 'return')
      expect((await rooms.list()).size).to.equal(0)
    })
  })

  it('keep the guest’s name and id reserved while its new host does not report the guest yet', async () => {
    await moves.begin(move, 'web')
    await moves.decide(move, 'switch')
    const owners = new GuestOwners({ view: new FleetState(), registry, moves, log: silentLog })
    const hourMs = 3_600_000
    await owners.sweep(-hourMs)
    expect(await store.client.hExists(store.key('guests'), uuid)).to.equal(1)
    await moves.forget(move)
    await owners.sweep(-hourMs)
    expect(await store.client.hExists(store.key('guests'), uuid)).to.equal(0)
  })
})
