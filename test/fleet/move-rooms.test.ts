import { expect } from 'chai'
import { MoveStore } from '../../gateway/fleet/moves/move-store.js'
import { planRooms, type ReservedRoom } from '../../gateway/fleet/placement/plan-rooms.js'
import { RoomStore } from '../../gateway/fleet/placement/room-store.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'

const hourMs = 3_600_000

describe('the resources that a move reserves on its target', () => {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())

  it('stay reserved for a day after the start of the move', async () => {
    const store = await redis.openStore()
    const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
    const room: ReservedRoom = { hostId: 'target', uuid: 'u', limits, untilMs: steadyClock.now() + 1000 }
    const guest = { uuid: 'u', id: 1, name: 'n', hostId: 'source', operationId: '', reservedAtMs: 0 }
    await store.client.hSet(store.key('guests'), 'u', JSON.stringify(guest))
    const rooms = new RoomStore(store)
    await rooms.change(() => ({ changes: new Map([['m', room]]), result: undefined }))
    const move = { id: 'm', uuid: 'u', fromHostId: 'source', toHostId: 'target', beganAtMs: 0 }
    await new MoveStore(store).begin(move, 'n')
    for (const [hours, count] of [
      [0, 1],
      [23, 1],
      [25, 0],
    ] as const) {
      const nowMs = steadyClock.now() + hours * hourMs
      const { counted, changes } = planRooms(await rooms.list(), { nowMs, latestMs: nowMs, isShown: () => false })
      expect([counted.length, changes.size], `after ${hours} hours`).to.deep.equal([count, 1 - count])
    }
  })
})
