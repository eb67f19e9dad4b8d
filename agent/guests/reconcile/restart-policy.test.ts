import { expect } from 'chai'
import { RestartPolicy } from './restart-policy.js'

describe('RestartPolicy, which delays the restart of a guest,', () => {
  let now = 1_000_000
  let policy: RestartPolicy

  beforeEach(() => {
    policy = new RestartPolicy(() => now)
  })

  it('waits up to 1.5 s for the report why a guest ended', () => {
    expect(policy.holdMs('u', false)).to.equal(1500)
    now += 1000
    expect(policy.holdMs('u', false)).to.equal(500)
    now += 500
    expect(policy.holdMs('u', false)).to.equal(0)
  })

  it('does not delay the first restart of a crashed guest', () => {
    expect(policy.holdMs('u', true)).to.equal(0)
  })

  it('waits again for the report of why the guest ended if the guest has run since the last wait', () => {
    policy.holdMs('u', false)
    now += 1500
    policy.running('u')
    expect(policy.holdMs('u', false)).to.equal(1500)
  })

  it('doubles the delay after each restart, and forgets old restarts', () => {
    const holds = [0, 1, 2, 3].map(() => {
      policy.started('u')
      const hold = policy.holdMs('u', true)
      now += hold
      return hold
    })
    expect(holds).to.deep.equal([5000, 10_000, 20_000, 40_000])
    now += 600_000
    expect(policy.holdMs('u', true)).to.equal(0)
  })
})
