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
    ['not with a high one', { ...critical, severity: 'high' }, {}, undefined],
    ['not for mining', { ...critical, type: 'mining' }, {}, undefined],
    ['not for a proxy', { ...critical, type: 'proxy' }, {}, undefined],
    ['not where it is switched off', critical, { enabled: false }, undefined],
    ['not for an exempt guest', critical, { isStoppable: () => false }, undefined],
    ['not for one that is over', { ...critical, lastAtMs: nowMs - 31_000 }, {}, undefined],
    ['wait for the time of grace', { ...pending, stopAtMs: nowMs + 1 }, {}, undefined],
    ['come at its end', pending, {}, 'stop'],
    ['do not where it ended meanwhile', { ...pending, lastAtMs: nowMs - 31_000 }, {}, 'cancel'],
    ['do where looks are rare', { ...pending, lastAtMs: nowMs - 100_000 }, { lookMs: 60_000 }, 'stop'],
    ['are canceled once it is switched off', { ...pending, stopAtMs: nowMs + 1 }, { enabled: false }, 'cancel'],
    ['are canceled for a guest that is exempt by now', pending, { isStoppable: () => false }, 'cancel'],
    ['begin again when it does', { ...critical, action: 'canceled', stopAtMs: nowMs - 6000 }, {}, 'begin'],
    [
      'not for what is harmless since it was lifted',
      { ...critical, action: 'lifted', stopAtMs: nowMs - 60_000, criticalAtMs: nowMs - 120_000 },
      {},
      undefined,
    ],
    ['not for what was before', { ...critical, action: 'lifted', stopAtMs: nowMs - 1 }, {}, undefined],
  ] as const)
    it(name, () => expect(planShutdown(alert, { ...on, ...view })).to.equal(step))
})
