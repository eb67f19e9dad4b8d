import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import type { GuestRecord, GuestSuspension } from '../record/record.js'
import { unlimitedTraffic } from '../record/record.js'
import { parseSuspension, planSuspend, planUnsuspend } from './suspension.js'

type Mode = GuestSuspension['mode']
type PolicyRecord = Pick<GuestRecord, 'suspension' | 'wanted' | 'policy' | 'traffic'>

const nowMs = 1000
const order = (mode: Mode) => ({ mode, reason: 'unpaid', message: 'pay', untilMs: 0 })
const suspended = (mode: Mode, resumes: boolean): GuestSuspension => ({ ...order(mode), sinceMs: 1, resumes })
const record = (
  wanted: PolicyRecord['wanted'],
  suspension: GuestSuspension | null = null,
  expired = false,
): PolicyRecord => ({ wanted, suspension, policy: { expired, overQuota: false }, traffic: unlimitedTraffic })

describe('the start or change of a suspension', () => {
  for (const [name, before, mode, resumes, wanted] of [
    ['lets a guest that was running start again when the suspension ends', record('running'), 'stop', true, undefined],
    ['leaves a stopped guest stopped when the suspension ends', record('stopped'), 'stop', false, undefined],
    ['leaves a running guest running in the mode "network"', record('running'), 'network', false, undefined],
    [
      'lets a guest start again when the suspension ends, even if the guest is suspended twice',
      record('stopped', suspended('stop', true)),
      'stop',
      true,
      undefined,
    ],
    [
      'starts a suspended guest again when the mode becomes "network"',
      record('stopped', suspended('stop', true)),
      'network',
      false,
      'running',
    ],
    [
      'leaves a stopped guest stopped when the mode becomes "network"',
      record('stopped', suspended('stop', false)),
      'network',
      false,
      undefined,
    ],
    [
      'lets a guest start again when the suspension ends if the guest ran when the mode became "stop"',
      record('running', suspended('network', false)),
      'stop',
      true,
      undefined,
    ],
    [
      'leaves an expired guest stopped in the mode "network"',
      record('stopped', suspended('stop', true), true),
      'network',
      false,
      undefined,
    ],
  ] as const)
    it(name, () => {
      const update = planSuspend(before, order(mode), nowMs)
      expect(update.suspension).to.deep.include({ mode, resumes, sinceMs: before.suspension ? 1 : nowMs })
      expect(update.wanted).to.equal(wanted)
    })
})

describe('the end of a suspension', () => {
  for (const [name, before, wanted] of [
    ['starts a guest that was running before the suspension', record('stopped', suspended('stop', true)), 'running'],
    [
      'leaves a guest stopped that was stopped before the suspension',
      record('stopped', suspended('stop', false)),
      undefined,
    ],
    ['leaves an expired guest stopped', record('stopped', suspended('stop', true), true), undefined],
    [
      'leaves a guest that is suspended in the mode "network" running',
      record('running', suspended('network', false)),
      undefined,
    ],
    ['changes nothing for a guest without a suspension', record('stopped'), undefined],
  ] as const)
    it(name, () => {
      const update = planUnsuspend(before)
      expect([update.suspension, update.wanted]).to.deep.equal([null, wanted])
    })
})

describe('the check of a request to suspend a guest', () => {
  for (const [name, fields, field] of [
    ['an empty reason', { reason: ' ' }, 'reason'],
    ['a reason of two lines', { reason: 'a\nb' }, 'reason'],
    ['a message of 501 characters', { message: 'x'.repeat(501) }, 'message'],
    ['an unknown mode', { mode: 'freeze' }, 'mode'],
    ['an end in the past', { untilMs: nowMs }, 'until'],
    ['an end that is not a valid time', { untilMs: 1e18 }, 'until'],
  ] as const)
    it(`refuses ${name}`, () => {
      const parse = (): unknown => parseSuspension({ ...order('stop'), ...fields }, nowMs)
      expect(parse).to.throw(BerthError).with.property('field', field)
    })
})
