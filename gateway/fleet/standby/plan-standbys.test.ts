import { expect } from 'chai'
import type { GuestView } from '../contract.js'
import { findUsable, isDue, isGone, isStale, isStored, nextAttemptMs, planOrders, planSeen } from './plan-standbys.js'

const minuteMs = 60_000
const standby = {
  standbyId: 's1',
  hostId: 'b',
  intervalMinutes: 10,
  bandwidthMbps: 0,
  takenAtMs: 1_000_000,
  sentBytes: 1,
  triedAtMs: 1_000_500,
  failures: 0,
  error: '',
}
const usual = { uuid: 'u1', virtualization: 'lxc', status: 'running', standby }
const viewOf = (guest: object, online = true): GuestView =>
  ({ hostId: 'a', online, guest: { ...usual, ...guest } }) as unknown as GuestView
const copy = { standbyId: 's1', uuid: 'u1', fromHostId: 'a', complete: true }

describe('the time of the next increment', () => {
  for (const [name, change, expected] of [
    ['is an interval after the last result', {}, 1_000_500 + 10 * minuteMs],
    ['is at least one minute later if a host reports an interval of 0', { intervalMinutes: 0 }, 1_000_500 + minuteMs],
    ['is at most a day later', { intervalMinutes: 1e9 }, 1_000_500 + 1440 * minuteMs],
    ['is 5 minutes after a failure', { failures: 1 }, 1_000_500 + 5 * minuteMs],
    [
      'is after the interval if that is shorter than the delay after a failure',
      { failures: 9, intervalMinutes: 1 },
      1_000_500 + minuteMs,
    ],
    ['is 5 minutes after the first increment failed', { failures: 1, takenAtMs: 0 }, 1_000_500 + 5 * minuteMs],
  ] as const)
    it(name, () => expect(nextAttemptMs({ ...standby, ...change }, 1_000_500)).to.equal(expected))

  it('is in the past before the first attempt', () => {
    const fresh = { ...standby, takenAtMs: 0, triedAtMs: 0 }
    expect(nextAttemptMs(fresh, planSeen(undefined, fresh, 1_000_500).seenMs)).to.equal(10 * minuteMs)
  })
})

describe('an increment', () => {
  const lateMs = 1_000_000 + 11 * minuteMs
  for (const [name, view, nowMs, expected] of [
    ['is due after its interval', viewOf({}), lateMs, true],
    ['is not due before', viewOf({}), 1_000_000 + 9 * minuteMs, false],
    ['waits for an offline host', viewOf({}, false), lateMs, false],
    ['is only for guests with a standby', viewOf({ standby: undefined }), lateMs, false],
    ['waits while the guest leaves its host', viewOf({ ownership: { role: 'leaving' } }), lateMs, false],
    ['is not for a virtual machine', viewOf({ virtualization: 'kvm' }), lateMs, false],
    ['is not for a broken guest', viewOf({ status: 'error' }), lateMs, false],
    ['is not for a deleted guest', viewOf({ deletion: { sinceMs: 1, untilMs: 2 } }), lateMs, false],
  ] as const)
    it(name, () => expect(isDue(view, 1_000_000, nowMs)).to.equal(expected))
})

describe('a standby that a host reports', () => {
  const stored = { standbyId: 's1', hostId: 'b', fromHostId: 'a', intervalMinutes: 10, bandwidthMbps: 0 }
  for (const [name, view, entry, expected] of [
    ['is accepted if an administrator has set it', viewOf({}), stored, true],
    ['is rejected if the host invented it', viewOf({}), undefined, false],
    ['is rejected if it has another id', viewOf({}), { ...stored, standbyId: 's2' }, false],
    ['is rejected if it is on another host', viewOf({}), { ...stored, hostId: 'c' }, false],
    ['is rejected if the guest has moved', viewOf({}), { ...stored, fromHostId: 'c' }, false],
    ['is rejected if the guest has none', viewOf({ standby: undefined }), stored, false],
  ] as const)
    it(name, () => expect(isStored(view, entry)).to.equal(expected))
})

describe('a guest that the store lacks', () => {
  for (const [name, source, isRegistered, expected] of [
    ['was deleted if its host is online without it', { online: true, hasGuest: false }, false, true],
    ['was possibly not deleted if its host was removed by force', undefined, false, false],
    ['was possibly not deleted if its host is offline', { online: false, hasGuest: false }, false, false],
    ['exists if its host reports it', { online: true, hasGuest: true }, false, false],
    ['exists if it is registered', { online: true, hasGuest: false }, true, false],
  ] as const)
    it(name, () => expect(isGone(source, isRegistered)).to.equal(expected))
})

describe('the copy of a standby', () => {
  const facts = { guest: viewOf({}), isGone: false, isRelocating: false }
  for (const [name, hostId, change, expected] of [
    ['stays while its guest has this standby', 'b', {}, false],
    ['is stale on another host', 'c', {}, true],
    [
      'is stale if the guest has another standby',
      'b',
      { guest: viewOf({ standby: { ...standby, standbyId: 's2' } }) },
      true,
    ],
    ['is stale if the guest has no standby', 'b', { guest: viewOf({ standby: undefined }) }, true],
    ['stays if its guest is broken', 'b', { guest: viewOf({ standby: undefined, status: 'error' }) }, false],
    ['stays while the host of the guest is offline', 'b', { guest: viewOf({ standby: undefined }, false) }, false],
    [
      'stays while the guest is restored elsewhere',
      'b',
      { guest: viewOf({ standby: undefined }), isRelocating: true },
      false,
    ],
    ['is stale if the guest was deleted', 'b', { guest: undefined, isGone: true }, true],
    ['stays if no host reports the guest, which still exists', 'b', { guest: undefined }, false],
  ] as const)
    it(name, () => expect(isStale(copy, hostId, { ...facts, ...change })).to.equal(expected))

  for (const [name, guest, copies, expected] of [
    ['can be started', viewOf({}), [copy], true],
    ['cannot be started if it is incomplete', viewOf({}), [{ ...copy, complete: false }], false],
    ['cannot be started if it is of another standby', viewOf({}), [{ ...copy, standbyId: 's2' }], false],
    ['cannot be started if it is of another guest', viewOf({}), [{ ...copy, uuid: 'u2' }], false],
    ['cannot be started if it is from another host', viewOf({}), [{ ...copy, fromHostId: 'c' }], false],
    ['cannot be started if its age is not known', viewOf({ standby: { ...standby, takenAtMs: 0 } }), [copy], false],
  ] as const)
    it(name, () => {
      const usable = { standbyId: 's1', hostId: 'b', takenAtMs: 1_000_000 }
      expect(findUsable(guest, copies, 2_000_000)).to.deep.equal(expected ? usable : undefined)
    })
})

describe('the time at which the gateway learned of a result', () => {
  for (const [name, known, expected] of [
    ['is the present if the host of an unknown standby reports a future time', undefined, 500],
    ['is the present if a known standby has a new result', { standbyId: 's1', triedAtMs: 1, seenMs: 1 }, 500],
    ['does not change until the next result', { standbyId: 's1', triedAtMs: 9000, seenMs: 77 }, 77],
    ['does not come from a former standby', { standbyId: 's0', triedAtMs: 9000, seenMs: 77 }, 500],
  ] as const)
    it(name, () => {
      const seen = planSeen(known, { standbyId: 's1', triedAtMs: 9000 }, 500)
      expect(seen).to.deep.equal({ standbyId: 's1', triedAtMs: 9000, seenMs: expected })
    })

  it('is the time of the host if that is in the past', () => {
    expect(planSeen(undefined, { standbyId: 's1', triedAtMs: 400 }, 500).seenMs).to.equal(400)
  })

  it('is at most the present in the copy that is used', () => {
    expect(findUsable(viewOf({}), [copy], 5)?.takenAtMs).to.equal(5)
  })
})

describe('the increments that begin', () => {
  const view = (uuid: string, hostId = 'b'): GuestView => viewOf({ uuid, standby: { ...standby, hostId } })
  const [u1, u2, u3, other] = [view('u1'), view('u2'), view('u3'), view('u4', 'c')]
  for (const [name, due, running, expected] of [
    ['are at most two at a time for each host', [u1, u2, u3, other], [], [u1, u2, other]],
    ['include running increments in the limit', [u2, u3], [u1], [u2]],
    ['do not include a third one while two run', [u3], [u1, u2], []],
    ['repeat a running increment, because its request may be lost', [u1, u3], [u1, u2], [u1]],
  ] as const)
    it(name, () => expect(planOrders(due, running)).to.deep.equal(expected))
})
