import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { planReservations, type ReservationRequest, type StoredReservations } from './plan-reservations.js'
import type { ReservedRooms } from './plan-rooms.js'

const nowMs = 1000
const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const room = { hostId: 'a', limits, untilMs: 2000 }
const earlier = { uuid: 'u0', id: 3, name: 'old', hostId: 'a', operationId: 'o0', reservedAtMs: 1 }

/** Places a guest on the host `a`, which has resources for two guests. */
function place(rooms: ReservedRooms) {
  if (rooms.size >= 2) throw new BerthError('exhausted', 'resource_exhausted', 'full')
  return { hostId: 'a', room, changes: new Map([['expired', undefined]]) }
}

function request(number: number, changes: Partial<ReservationRequest> = {}): ReservationRequest {
  const ids = { name: `guest-${number}`, operationId: `o${number}`, uuid: `u${number}` }
  return { ...ids, isShown: (ref) => ref === 'shown', place, ...changes }
}

function plan(requests: readonly ReservationRequest[], stored: Partial<StoredReservations> = {}) {
  const freeIds = requests.map((_, at) => at + 10)
  const none = { earlier: new Map(), names: new Set<string>(), rooms: new Map() }
  const { outcomes, ...rest } = planReservations(requests, { ...none, freeIds, ...stored }, nowMs)
  const results = outcomes.map((one) => {
    if ('error' in one) return (one.error as BerthError).code
    return `${one.repeated ? 'again ' : ''}${one.reservation.uuid} ${one.reservation.id}`
  })
  return { results, ...rest }
}

describe('the plan for several requested reservations', () => {
  for (const [name, requests, stored, results] of [
    ['gives ids in the order of the requests', [request(1), request(2)], {}, ['u1 10', 'u2 11']],
    [
      'rejects only the request for which no host has resources, and accepts the requests before it',
      [request(1), request(2), request(3)],
      {},
      ['u1 10', 'u2 11', 'resource_exhausted'],
    ],
    [
      'counts the reservations that the store already contains',
      [request(1), request(2)],
      { rooms: new Map([['o', room]]) },
      ['u1 10', 'resource_exhausted'],
    ],
    [
      'gives a name only to the first of two requests, and gives the next id to the following request',
      [request(1, { name: 'web' }), request(2, { name: 'WEB' }), request(3)],
      {},
      ['u1 10', 'name_conflict', 'u3 11'],
    ],
    [
      'refuses a name that is reserved in the store',
      [request(1, { name: 'Web' })],
      { names: new Set(['web']) },
      ['name_conflict'],
    ],
    ['refuses a name that a guest in the fleet view has', [request(1, { name: 'shown' })], {}, ['name_conflict']],
    [
      'returns the reservation of an earlier attempt, although its name is already in use',
      [request(0, { name: 'old', uuid: 'other' })],
      { earlier: new Map([['o0', earlier]]), names: new Set(['old']) },
      ['again u0 3'],
    ],
    [
      'returns the same reservation to two simultaneous attempts of one request',
      [request(1), request(1, { uuid: 'other' })],
      {},
      ['u1 10', 'again u1 10'],
    ],
  ] as const)
    it(name, () => expect(plan(requests, stored).results).to.deep.equal(results))

  it('reserves resources only for accepted requests', () => {
    const { add, rooms } = plan([request(1), request(2, { name: 'shown' })])
    expect(add).to.deep.equal([
      { name: 'guest-1', operationId: 'o1', hostId: 'a', uuid: 'u1', id: 10, reservedAtMs: nowMs },
    ])
    expect([...rooms]).to.deep.equal([
      ['expired', undefined],
      ['o1', { ...room, uuid: 'u1' }],
    ])
  })
})
