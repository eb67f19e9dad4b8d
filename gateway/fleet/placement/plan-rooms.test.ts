import { expect } from 'chai'
import { planRooms, planSettled, roomSettleMs, sumRooms, type ReservedRoom } from './plan-rooms.js'

const nowMs = 1_000_000
const soonMs = nowMs + roomSettleMs
const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const room = (changes: Partial<ReservedRoom> = {}): ReservedRoom => ({
  hostId: 'a',
  limits,
  untilMs: nowMs + 60_000,
  ...changes,
})
/** The view shows the guest `shown` on the host `a`. */
const isShown = (hostId: string, uuid: string): boolean => hostId === 'a' && uuid === 'shown'

describe('the plan of reserved resources', () => {
  for (const [name, reserved, counts, changed] of [
    ['counts a reservation for a guest without a uuid', room(), true, 'unchanged'],
    ['counts a reservation for a guest that the host has not reported', room({ uuid: 'coming' }), true, 'unchanged'],
    [
      'does not count a reservation for a guest in the view, and makes the reservation end soon',
      room({ uuid: 'shown' }),
      false,
      room({ uuid: 'shown', untilMs: soonMs }),
    ],
    [
      'does not change a reservation that already ends soon',
      room({ uuid: 'shown', untilMs: soonMs }),
      false,
      'unchanged',
    ],
    [
      'counts a reservation that ends soon if this view does not show the guest yet',
      room({ uuid: 'coming', untilMs: soonMs }),
      true,
      'unchanged',
    ],
    [
      'counts a reservation on the target of a guest that another host shows',
      room({ hostId: 'b', uuid: 'shown' }),
      true,
      'unchanged',
    ],
    ['removes a reservation that has expired', room({ untilMs: nowMs }), false, undefined],
    [
      'removes a reservation for a shown guest when the reservation ends',
      room({ uuid: 'shown', untilMs: nowMs }),
      false,
      undefined,
    ],
  ] as const)
    it(name, () => {
      const { counted, changes } = planRooms(new Map([['o', reserved]]), { nowMs, isShown })
      expect(counted).to.deep.equal(counts ? [reserved] : [])
      expect(changes.has('o') ? changes.get('o') : 'unchanged').to.deep.equal(changed)
    })

  it('never prolongs a reservation whose guest is reported', () => {
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
