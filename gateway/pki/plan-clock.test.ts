import { expect } from 'chai'
import { doubtClock, type ClockWitnesses } from './plan-clock.js'

const nowMs = Date.UTC(2026, 10, 25)
const hourMs = 3_600_000
const dayMs = 24 * hourMs

describe('the check of the gateway’s clock', () => {
  for (const [name, more, doubt] of [
    ['trusts the clock if no other clock is known', {}, ''],
    ['trusts the clock if all clocks agree', { peerMs: nowMs + 1000, storeMs: nowMs, lastIssuedMs: nowMs - dayMs }, ''],
    ['trusts the clock if the host’s clock is 50 minutes behind', { peerMs: nowMs - 50 * 60_000 }, ''],
    ['trusts the clock after a jump if the host’s clock agrees', { jumpMs: 25 * dayMs, peerMs: nowMs }, ''],
    [
      'distrusts the clock after a jump forwards',
      { jumpMs: 25 * dayMs },
      'the clock of this gateway has just jumped by 25 days',
    ],
    [
      'distrusts the clock after a jump backwards',
      { jumpMs: -25 * dayMs },
      'the clock of this gateway has just jumped by -25 days',
    ],
    [
      'distrusts the clock if the host’s clock is 25 days behind',
      { peerMs: nowMs - 25 * dayMs },
      'the clock of the host differs from this gateway by -25 days',
    ],
    [
      'distrusts the clock if the host’s clock is two hours ahead',
      { peerMs: nowMs + 2 * hourMs },
      'the clock of the host differs from this gateway by 120 minutes',
    ],
    [
      'distrusts the clock if the store’s clock is 40 days behind',
      { storeMs: nowMs - 40 * dayMs },
      'the clock of the store differs from this gateway by -40 days',
    ],
    [
      'distrusts the clock if the last certificate was issued in the future',
      { lastIssuedMs: nowMs + 25 * dayMs },
      'the last certificate was issued 25 days in the future',
    ],
    [
      'trusts the clock despite a certificate from the future if the store’s clock agrees',
      { lastIssuedMs: nowMs + 25 * dayMs, storeMs: nowMs },
      '',
    ],
    [
      'trusts the clock despite a certificate from the future if the host’s clock agrees',
      { lastIssuedMs: nowMs + 25 * dayMs, peerMs: nowMs },
      '',
    ],
  ] as const satisfies readonly (readonly [string, Partial<ClockWitnesses>, string])[])
    it(name, () => expect(doubtClock({ nowMs, jumpMs: 0, ...more })).to.equal(doubt))
})
