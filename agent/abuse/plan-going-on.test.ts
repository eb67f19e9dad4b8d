import { expect } from 'chai'
import type { Evidence, Finding, FlowRow } from './contract.js'
import { isNews, lastSeenMs } from './plan-going-on.js'

const nowMs = 1_000_000
const target = '198.18.0.1'
const finding: Finding = { type: 'port_scan', severity: 'critical', target, port: 0, detail: '' }
const pending = [{ type: 'port_scan', action: 'stop_pending' }] as const

function view(row: Partial<FlowRow>): Evidence {
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

describe('a finding of a guest that is about to be stopped', () => {
  for (const [name, row, own, isIt] of [
    ['is reported while it continues', {}, pending, true],
    ['is not reported once it has ended', { atMs: nowMs - 16_000 }, pending, false],
    ['is not reported for traffic to another target', { target: '198.18.0.2' }, pending, false],
    [
      'is not reported for traffic that began long ago and was recorded late',
      { outcome: 'unanswered' },
      pending,
      false,
    ],
    ['is reported if it has no pending action', { atMs: 0 }, [{ type: 'port_scan', action: '' }], true],
    [
      'is reported if the pending action concerns another finding',
      { atMs: 0 },
      [{ type: 'spam', action: 'lifted' }],
      true,
    ],
  ] as const)
    it(name, () => expect(isNews(own, finding, { view: view(row), lookMs: 10_000 })).to.equal(isIt))
})

describe('the description of a finding', () => {
  for (const [name, row, seenMs] of [
    ['was seen at the last request of the guest', { outcome: 'opened' }, nowMs - 5000],
    ['was seen when it was last refused', {}, nowMs - 5000],
    ['was not seen if only its outcome is known', { outcome: 'unanswered' }, 0],
    ['was not seen in the host’s table', { outcome: 'answered' }, 0],
    ['was not seen at another target', { target: '198.18.0.2' }, 0],
  ] as const)
    it(name, () => expect(lastSeenMs(view(row), finding)).to.equal(seenMs))
})
