import { expect } from 'chai'
import type { AlertState } from './plan-merge.js'
import { planShutdown, type ShutdownView } from './plan-shutdown.js'

const nowMs = 1_000_000
const critical: AlertState = {
  guestUuid: 'uuid',
  guestId: 1,
  guestName: 'web1',
  sourceIp: '10.0.0.2',
  targetIp: '*',
  targetPort: 0,
  type: 'ddos',
  severity: 'critical',
  detail: '',
  firstAtMs: 0,
  lastAtMs: nowMs - 5000,
  count: 3,
  action: '',
  stopAtMs: 0,
  criticalAtMs: nowMs - 5000,
}
const pending = { ...critical, action: 'stop_pending', stopAtMs: nowMs - 1 } as const
const on: ShutdownView = { nowMs, enabled: true, lookMs: 10_000, isStoppable: () => true }

describe('the stop of a guest for abuse', () => {
  for (const [name, alert, view, step] of [
    ['is planned for an alert of the severity "critical"', critical, {}, 'begin'],
    ['is not planned for an alert of the severity "high"', { ...critical, severity: 'high' }, {}, undefined],
    ['is not planned for an alert of the type "mining"', { ...critical, type: 'mining' }, {}, undefined],
    ['is not planned for an alert of the type "proxy"', { ...critical, type: 'proxy' }, {}, undefined],
    ['is not planned if stops for abuse are switched off', critical, { enabled: false }, undefined],
    ['is not planned for a guest that is exempt from stops', critical, { isStoppable: () => false }, undefined],
    ['is not planned for abuse that has ended', { ...critical, lastAtMs: nowMs - 31_000 }, {}, undefined],
    ['is not executed before the end of the grace period', { ...pending, stopAtMs: nowMs + 1 }, {}, undefined],
    ['is executed at the end of the grace period', pending, {}, 'stop'],
    [
      'is canceled if the abuse has ended before the end of the grace period',
      { ...pending, lastAtMs: nowMs - 31_000 },
      {},
      'cancel',
    ],
    [
      'is executed if the abuse was found 100 seconds ago, because the agent evaluates the traffic only once a minute',
      { ...pending, lastAtMs: nowMs - 100_000 },
      { lookMs: 60_000 },
      'stop',
    ],
    [
      'is canceled if stops for abuse are switched off during the grace period',
      { ...pending, stopAtMs: nowMs + 1 },
      { enabled: false },
      'cancel',
    ],
    ['is canceled for a guest that has become exempt from stops', pending, { isStoppable: () => false }, 'cancel'],
    [
      'is planned again if abuse is found after a canceled stop',
      { ...critical, action: 'canceled', stopAtMs: nowMs - 6000 },
      {},
      'begin',
    ],
    [
      'is not planned again if the last critical finding was 60 seconds before the end of the last stop',
      { ...critical, action: 'lifted', stopAtMs: nowMs - 60_000, criticalAtMs: nowMs - 120_000 },
      {},
      undefined,
    ],
    [
      'is not planned again if the last critical finding was 5 seconds before the end of the last stop',
      { ...critical, action: 'lifted', stopAtMs: nowMs - 1 },
      {},
      undefined,
    ],
  ] as const)
    it(name, () => expect(planShutdown(alert, { ...on, ...view })).to.equal(step))
})
