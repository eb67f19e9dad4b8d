import { expect } from 'chai'
import type { Evidence, Finding, RecordedFlow } from './contract.js'
import { isNews, lastSeenMs } from './plan-going-on.js'

const nowMs = 1_000_000
const target = '198.18.0.1'
const finding: Finding = { type: 'port_scan', severity: 'critical', target, port: 0, detail: '' }
const pending = [{ type: 'port_scan', action: 'stop_pending' }] as const

function view(row: Partial<RecordedFlow>): Evidence {
  const usual = {
    atMs: nowMs - 5000,
    outcome: 'refused',
    target,
    protocol: 'tcp',
    port: 1,
    count: 1,
  } as const
  return { nowMs, rows: [{ ...usual, ...row }], mail: [], claims: [], counts: [], isMailServer: false }
}

describe('a finding about a guest with an open alert', () => {
  for (const [name, row, own, isIt] of [
    ['is reported while a stop of the guest is pending, if the abuse continues', {}, pending, true],
    [
      'is not reported while a stop of the guest is pending, if the abuse has ended',
      { atMs: nowMs - 16_000 },
      pending,
      false,
    ],
    [
      'is not reported while a stop of the guest is pending, if the recent traffic goes to another target',
      { target: '198.18.0.2' },
      pending,
      false,
    ],
    [
      'is not reported while a stop of the guest is pending, if the only recent event is an unanswered flow',
      { outcome: 'unanswered' },
      pending,
      false,
    ],
    [
      'is reported if the alert has not led to a stop of the guest',
      { atMs: 0 },
      [{ type: 'port_scan', action: '' }],
      true,
    ],
    [
      'is reported if only an alert of another type has led to a stop of the guest',
      { atMs: 0 },
      [{ type: 'spam', action: 'lifted' }],
      true,
    ],
  ] as const)
    it(name, () => expect(isNews(own, finding, { view: view(row), lookMs: 10_000 })).to.equal(isIt))
})

describe('the time of the last packets that belong to a finding', () => {
  for (const [name, row, seenMs] of [
    ['is the time of the last request of the guest', { outcome: 'opened' }, nowMs - 5000],
    ['is the time at which a request of the guest was last refused', {}, nowMs - 5000],
    ['is 0 if the guest had only unanswered flows', { outcome: 'unanswered' }, 0],
    ['is 0 if the connection table contained only answered flows of the guest', { outcome: 'answered' }, 0],
    [
      'is 0 if all flows of the guest went to targets other than the target of the finding',
      { target: '198.18.0.2' },
      0,
    ],
  ] as const)
    it(name, () => expect(lastSeenMs(view(row), finding)).to.equal(seenMs))
})
