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

describe('stops for abuse', () => {
  for (const [name, alert, view, step] of [
    ['begin with a critical alert', critical, {}, 'begin'],
    ['do not begin with a high alert', { ...critical, severity: 'high' }, {}, undefined],
    ['do not begin for mining', { ...critical, type: 'mining' }, {}, undefined],
    ['do not begin for a proxy', { ...critical, type: 'proxy' }, {}, undefined],
    ['do not begin if they are switched off', critical, { enabled: false }, undefined],
    ['do not begin for an exempt guest', critical, { isStoppable: () => false }, undefined],
    ['do not begin for abuse that has ended', { ...critical, lastAtMs: nowMs - 31_000 }, {}, undefined],
    ['are not executed before the end of the grace period', { ...pending, stopAtMs: nowMs + 1 }, {}, undefined],
    ['are executed at the end of the grace period', pending, {}, 'stop'],
    ['are canceled if the abuse has ended before', { ...pending, lastAtMs: nowMs - 31_000 }, {}, 'cancel'],
    [
      'are executed if the last of rare evaluations found abuse',
      { ...pending, lastAtMs: nowMs - 100_000 },
      { lookMs: 60_000 },
      'stop',
    ],
    ['are canceled once they are switched off', { ...pending, stopAtMs: nowMs + 1 }, { enabled: false }, 'cancel'],
    ['are canceled for a guest that has become exempt', pending, { isStoppable: () => false }, 'cancel'],
    [
      'begin again if abuse is found after a canceled stop',
      { ...critical, action: 'canceled', stopAtMs: nowMs - 6000 },
      {},
      'begin',
    ],
    [
      'do not begin if no finding was critical since the stop was lifted',
      { ...critical, action: 'lifted', stopAtMs: nowMs - 60_000, criticalAtMs: nowMs - 120_000 },
      {},
      undefined,
    ],
    [
      'do not begin for critical findings from before the stop was lifted',
      { ...critical, action: 'lifted', stopAtMs: nowMs - 1 },
      {},
      undefined,
    ],
  ] as const)
    it(name, () => expect(planShutdown(alert, { ...on, ...view })).to.equal(step))
})
