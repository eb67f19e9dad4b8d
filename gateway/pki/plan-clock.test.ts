import { expect } from 'chai'
import { doubtClock, type ClockWitnesses } from './plan-clock.js'

const nowMs = Date.UTC(2026, 10, 25)
const hourMs = 3_600_000
const dayMs = 24 * hourMs

describe('doubts about the clock', () => {
  for (const [name, more, doubt] of [
    ['nothing is known', {}, ''],
    ['all agree', { peerMs: nowMs + 1000, storeMs: nowMs, lastIssuedMs: nowMs - dayMs }, ''],
    ['a host that is 50 minutes behind', { peerMs: nowMs - 50 * 60_000 }, ''],
    ['a jump, and a host that agrees', { jumpMs: 25 * dayMs, peerMs: nowMs }, ''],
    ['a jump', { jumpMs: 25 * dayMs }, 'the clock of this gateway has just jumped by 25 days'],
    ['a jump back', { jumpMs: -25 * dayMs }, 'the clock of this gateway has just jumped by -25 days'],
    [
      'a host that is behind',
      { peerMs: nowMs - 25 * dayMs },
      'the clock of the host differs from this gateway by -25 days',
    ],
    [
      'a host that is ahead',
      { peerMs: nowMs + 2 * hourMs },
      'the clock of the host differs from this gateway by 120 minutes',
    ],
    [
      'a store that is behind',
      { storeMs: nowMs - 40 * dayMs },
      'the clock of the store differs from this gateway by -40 days',
    ],
    [
      'a last certificate from the future',
      { lastIssuedMs: nowMs + 25 * dayMs },
      'the last certificate was issued 25 days in the future',
    ],
    ['one from the future, and a store that agrees', { lastIssuedMs: nowMs + 25 * dayMs, storeMs: nowMs }, ''],
    ['one from the future, and a host that agrees', { lastIssuedMs: nowMs + 25 * dayMs, peerMs: nowMs }, ''],
  ] as const satisfies readonly (readonly [string, Partial<ClockWitnesses>, string])[])
    it(name, () => expect(doubtClock({ nowMs, jumpMs: 0, ...more })).to.equal(doubt))
})
