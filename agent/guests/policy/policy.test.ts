import { expect } from 'chai'
import { AgentConfigSchema } from '../../config.js'
import { validateConfig } from '../../../shared/config.js'
import { blocksOf, isAllowedToRun, isThrottled, policyReasonOf, ratesOf } from './policy.js'
import {
  unlimitedTraffic,
  type GuestPolicy,
  type GuestRecord,
  type GuestSuspension,
  type TrafficLimit,
} from '../record/record.js'

const config = validateConfig(AgentConfigSchema, {}, 'defaults')

const record = (
  policy: Partial<GuestPolicy>,
  traffic: Partial<TrafficLimit> = {},
  [networkDownMbps, networkUpMbps]: readonly [number, number] = [0, 0],
): GuestRecord =>
  ({
    id: 7,
    policy: { expired: false, overQuota: false, ...policy },
    traffic: { ...unlimitedTraffic, ...traffic },
    spec: { limits: { networkDownMbps, networkUpMbps } },
  }) as GuestRecord

describe('the policy of a guest', () => {
  for (const [name, judged, reason] of [
    ['neither expired nor over its quota', record({}), ''],
    ['expired', record({ expired: true }), 'expired'],
    ['over its quota', record({ overQuota: true }), 'traffic quota used up'],
    ['expired and over its quota', record({ expired: true, overQuota: true }), 'expired, traffic quota used up'],
    ['over its quota with the action "throttle"', record({ overQuota: true }, { action: 'throttle' }), ''],
    ['over its quota with the action "none"', record({ overQuota: true }, { action: 'none' }), ''],
    [
      'expired and over its quota with the action "throttle"',
      record({ expired: true, overQuota: true }, { action: 'throttle' }),
      'expired',
    ],
  ] as const)
    it(`gives ${reason === '' ? 'no reason' : `the reason "${reason}"`} to block a guest that is ${name}`, () =>
      expect(policyReasonOf(judged)).to.equal(reason))

  for (const [name, judged, down, up] of [
    ['a guest with configured rates', record({}, {}, [100, 20]), 100, 20],
    ['a guest with unlimited rates (0 means unlimited)', record({}), 0, 0],
    [
      'a guest below its quota with the action "throttle"',
      record({}, { action: 'throttle', throttleMbps: 2 }, [100, 0]),
      100,
      0,
    ],
    [
      'a guest over its quota with the action "stop" (no throttle)',
      record({ overQuota: true }, { throttleMbps: 2 }, [100, 0]),
      100,
      0,
    ],
    [
      'a guest over its quota that has a throttle rate of 2 Mbit/s',
      record({ overQuota: true }, { action: 'throttle', throttleMbps: 2 }),
      2,
      2,
    ],
    [
      'a guest over its quota that has only the default throttle rate of the host',
      record({ overQuota: true }, { action: 'throttle' }),
      10,
      10,
    ],
    [
      'a guest over its quota whose throttle rate is lower than only one of its two configured rates',
      record({ overQuota: true }, { action: 'throttle' }, [5, 100]),
      5,
      10,
    ],
  ] as const)
    it(`sets the rates to ${down} Mbit/s down and ${up} Mbit/s up for ${name}`, () =>
      expect(ratesOf(judged, config)).to.include({ device: 'bt7', downMbps: down, upMbps: up }))

  for (const [name, judged, cut] of [
    ['a guest that has expired', record({ expired: true }), true],
    ['a guest that is over its quota with the action "stop"', record({ overQuota: true }), true],
    [
      'a guest that is over its quota with the action "throttle"',
      record({ overQuota: true }, { action: 'throttle' }),
      false,
    ],
    ['a guest that is over its quota with the action "none"', record({ overQuota: true }, { action: 'none' }), false],
  ] as const)
    it(`${cut ? 'disconnects' : 'does not disconnect'} ${name}`, () =>
      expect(ratesOf(judged, config).cut).to.equal(cut))

  const suspension = (mode: GuestSuspension['mode']): GuestSuspension => ({
    mode,
    reason: 'unpaid',
    message: '',
    sinceMs: 1,
    untilMs: 0,
    resumes: false,
  })
  for (const [name, policy, mode, blocks, mayRun] of [
    ['suspended', {}, 'stop', ['suspended'], false],
    ['suspended in the mode "network"', {}, 'network', ['suspended'], true],
    ['suspended in the mode "network" and expired', { expired: true }, 'network', ['suspended', 'expired'], false],
    ['suspended and stopped for abuse', { abuse: 'ddos' }, 'stop', ['suspended', 'security'], false],
    ['over its quota', { overQuota: true }, undefined, ['traffic'], false],
    ['neither suspended nor over its quota', {}, undefined, [], true],
  ] as const)
    it(`lists ${blocks.map((reason) => `"${reason}"`).join(' and ') || 'nothing'} as the reasons to block a guest that is ${name}`, () => {
      const judged = { ...record(policy), suspension: mode === undefined ? null : suspension(mode) }
      expect(blocksOf(judged)).to.deep.equal(blocks)
      expect(isAllowedToRun(judged)).to.equal(mayRun)
      expect(ratesOf(judged, config).cut).to.equal(blocks.length > 0)
    })

  it('throttles a guest over its quota only with the action "throttle"', () => {
    expect(isThrottled(record({ overQuota: true }, { action: 'throttle' }))).to.equal(true)
    expect(isThrottled(record({ overQuota: true }))).to.equal(false)
  })
})
