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
    ['is current after its login', account, nowMs, true],
    ['ends when it expires', account, session.expiresAtMs, false],
    ['ends when all sessions of the account end', { ...account, generation: 6 }, nowMs, false],
    ['ends when its account is disabled', { ...account, disabled: true }, nowMs, false],
    ['ends with its account', undefined, nowMs, false],
    ['does not belong to another account', { ...account, id: 4 }, nowMs, false],
  ] as const)
    it(what, () => expect(isCurrent(session, now, atMs)).to.equal(current))

  it('stores little of what a browser sends about itself', () => {
    expect(session.userAgent).to.have.length(200)
  })
})
