import { expect } from 'chai'
import type { GuestStandby } from '../record/record.js'
import { planResult, planStandby } from './plan-standby.js'

const known: GuestStandby = {
  standbyId: '11112222-0000-4000-8000-000000000000',
  hostId: 'host-b',
  intervalMinutes: 5,
  bandwidthMbps: 0,
  takenAtMs: 1000,
  takenBytes: 5,
  sentBytes: 7,
  triedAtMs: 1100,
  failures: 2,
  error: 'offline',
}
const wanted = { standbyId: known.standbyId, hostId: 'host-b', intervalMinutes: 10, bandwidthMbps: 8 }
const specOf = (virtualization: 'lxc' | 'kvm') => ({ virtualization, templateId: 't', limits: {} as never })
const lxc = specOf('lxc')

describe('the plan of a warm standby', () => {
  it('keeps the copy if only the settings change', () => {
    const planned = planStandby({ spec: lxc, standby: known }, wanted)
    expect(planned).to.deep.equal({ ...known, intervalMinutes: 10, bandwidthMbps: 8 })
  })

  for (const [name, change] of [
    ['another id', { standbyId: '33334444-0000-4000-8000-000000000000' }],
    ['another host', { hostId: 'host-c' }],
  ] as const)
    it(`begins without a copy after a change to ${name}`, () => {
      const planned = planStandby({ spec: lxc, standby: known }, { ...wanted, ...change })
      expect(planned).to.include({ ...change, takenAtMs: 0, triedAtMs: 0, failures: 0, error: '' })
    })

  it('removes the standby if no host is named', () => {
    expect(planStandby({ spec: lxc, standby: known }, { ...wanted, hostId: '' })).to.equal(null)
  })

  for (const [name, spec, change, code] of [
    ['a virtual machine', specOf('kvm'), {}, 'unsupported'],
    ['an invalid host', lxc, { hostId: '../b' }, 'invalid_field'],
    ['an interval of 0', lxc, { intervalMinutes: 0 }, 'invalid_field'],
    ['an interval above a day', lxc, { intervalMinutes: 1441 }, 'invalid_field'],
    ['an invalid id', lxc, { standbyId: 'x' }, 'invalid_field'],
  ] as const)
    it(`refuses ${name}`, () => {
      expect(() => planStandby({ spec, standby: null }, { ...wanted, ...change }))
        .to.throw()
        .with.property('code', code)
    })

  it('counts failures, and resets them after a complete increment', () => {
    expect(planResult(known, { error: 'x'.repeat(600) }, 2000)).to.deep.equal({
      ...known,
      triedAtMs: 2000,
      failures: 3,
      error: 'x'.repeat(500),
    })
    expect(planResult(known, { takenAtMs: 1900, takenBytes: 6, sentBytes: 9 }, 2000)).to.deep.equal({
      ...known,
      takenAtMs: 1900,
      takenBytes: 6,
      sentBytes: 9,
      triedAtMs: 2000,
      failures: 0,
      error: '',
    })
  })
})
