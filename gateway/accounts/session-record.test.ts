import { expect } from 'chai'
import type { AdminAccount } from './account-record.js'
import { isCurrent, planSession } from './session-record.js'

const account: AdminAccount = {
  kind: 'admin',
  id: 3,
  username: 'ada',
  passwordHash: 'x',
  disabled: false,
  generation: 5,
  createdAtMs: 1,
}
const nowMs = 1_000_000
const session = planSession(account, { address: '192.0.2.1', userAgent: 'x'.repeat(500) }, { nowMs, keep: false })

describe('a session', () => {
  for (const [what, now, atMs, current] of [
    ['is valid after the login', account, nowMs, true],
    ['ends when it expires', account, session.expiresAtMs, false],
    ['ends when all sessions of its account are ended', { ...account, generation: 6 }, nowMs, false],
    ['ends if its account is disabled', { ...account, disabled: true }, nowMs, false],
    ['ends if its account is deleted', undefined, nowMs, false],
    ['is not valid for another account', { ...account, id: 4 }, nowMs, false],
  ] as const)
    it(what, () => expect(isCurrent(session, now, atMs)).to.equal(current))

  it('stores only the first 200 characters of a long User-Agent', () => {
    expect(session.userAgent).to.have.length(200)
  })
})
