import { expect } from 'chai'
import { planRooms, planSettled, roomLifetimeMs, roomSettleMs, sumRooms, type ReservedRoom } from './plan-rooms.js'

const nowMs = 1_000_000
const dayMs = 24 * 3_600_000
const soonMs = nowMs + roomSettleMs
const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const room = (changes: Partial<ReservedRoom> = {}): ReservedRoom => ({
  hostId: 'a',
  limits,
  untilMs: nowMs + 60_000,
  ...changes,
})
/** True for the guest `shown` on the host `a`, as if the host had reported it. */
const isShown = (hostId: string, uuid: string): boolean => hostId === 'a' && uuid === 'shown'

describe('the plan of reserved resources', () => {
  for (const [name, reserved, counts, changed] of [
    ['counts a reservation for a guest without a uuid', room(), true, 'unchanged'],
    ['counts a reservation for a guest that the host has not reported', room({ uuid: 'coming' }), true, 'unchanged'],
    [
      'does not count a reservation for a reported guest, and lets the reservation end soon',
      room({ uuid: 'shown' }),
      false,
      room({ uuid: 'shown', untilMs: soonMs }),
    ],
    ['keeps the end of a reservation that ends soon', room({ uuid: 'shown', untilMs: soonMs }), false, 'unchanged'],
    [
      'counts a reservation that ends soon if this gateway does not know the guest yet',
      room({ uuid: 'coming', untilMs: soonMs }),
      true,
      'unchanged',
    ],
    ['counts a reservation for a guest on another host', room({ hostId: 'b', uuid: 'shown' }), true, 'unchanged'],
    [
      'shortens and counts a reservation from a gateway with a clock that is days ahead',
      room({ untilMs: nowMs + 3 * dayMs }),
      true,
      room({ untilMs: nowMs + roomLifetimeMs }),
    ],
    [
      'shortens the reservation of a move to the maximum duration of a move',
      room({ untilMs: nowMs + 3 * dayMs, lifetimeMs: dayMs }),
      true,
      room({ untilMs: nowMs + dayMs, lifetimeMs: dayMs }),
    ],
    [
      'keeps the end of a move’s reservation if it is within the maximum duration of a move',
      room({ untilMs: nowMs + dayMs, lifetimeMs: dayMs }),
      true,
      'unchanged',
    ],
    ['removes an expired reservation', room({ untilMs: nowMs }), false, undefined],
    [
      'removes a reservation for a reported guest at the end of the reservation',
      room({ uuid: 'shown', untilMs: nowMs }),
      false,
      undefined,
    ],
  ] as const)
    it(name, () => {
      const { counted, changes } = planRooms(new Map([['o', reserved]]), { nowMs, latestMs: nowMs, isShown })
      expect(counted).to.deep.equal(counts ? [reserved] : [])
      expect(changes.has('o') ? changes.get('o') : 'unchanged').to.deep.equal(changed)
    })

  it('does not shorten a reservation while the clock of this gateway may be slow', () => {
    const reserved = room({ untilMs: nowMs + dayMs })
    const { changes } = planRooms(new Map([['o', reserved]]), { nowMs, latestMs: nowMs + dayMs, isShown })
    expect([...changes]).to.deep.equal([])
  })

  it('never prolongs a reservation for a reported guest', () => {
    expect(planSettled(room({ untilMs: nowMs + 1 }), nowMs).untilMs).to.equal(nowMs + 1)
    expect(planSettled(room(), nowMs).untilMs).to.equal(soonMs)
  })

  it('sums the reservations on each host', () => {
    const sums = sumRooms([room(), room({ hostId: 'b' }), room()])
    expect([...sums]).to.deep.equal([
      ['a', { vcpuMilli: 2000, ramMb: 1024, diskGb: 20 }],
      ['b', limits],
    ])
  })
})
