import { expect } from 'chai'
import { RestartPolicy } from './restart-policy.js'

describe('the delay before a guest is started again', () => {
  let now = 1_000_000
  let policy: RestartPolicy

  beforeEach(() => {
    policy = new RestartPolicy(() => now)
  })

  it('is at most 1.5 s while the host has not reported why the guest ended', () => {
    expect(policy.holdMs('u', false)).to.equal(1500)
    now += 1000
    expect(policy.holdMs('u', false)).to.equal(500)
    now += 500
    expect(policy.holdMs('u', false)).to.equal(0)
  })

  it('is 0 for the first restart of a crashed guest', () => {
    expect(policy.holdMs('u', true)).to.equal(0)
  })

  it('is 1.5 s again if the guest ends a second time for an unreported reason', () => {
    policy.holdMs('u', false)
    now += 1500
    policy.running('u')
    expect(policy.holdMs('u', false)).to.equal(1500)
  })

  it('doubles after each restart, and restarts long ago do not count', () => {
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
