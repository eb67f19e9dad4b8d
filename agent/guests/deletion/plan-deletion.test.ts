import { expect } from 'chai'
import { unlimitedTraffic } from '../record/record.js'
import { planDelete, planUndelete, refuseDeleted } from './plan-deletion.js'

const guest = {
  deletion: null,
  suspension: null,
  wanted: 'stopped',
  policy: { expired: false, overQuota: false },
  traffic: unlimitedTraffic,
} as const
const running = { ...guest, wanted: 'running' } as const
const suspension = { mode: 'stop', reason: 'bill', message: '', sinceMs: 1, untilMs: 0, resumes: true } as const
const marked = (resumes: boolean) => ({ ...guest, deletion: { sinceMs: 10, untilMs: 15, resumes } })

describe('a deletion that can be undone', () => {
  for (const [name, record, update] of [
    ['a stopped guest', guest, { deletion: { sinceMs: 10, untilMs: 15, resumes: false } }],
    ['a running guest', running, { deletion: { sinceMs: 10, untilMs: 15, resumes: true } }],
    [
      'a guest that a suspension has stopped (the guest then stays stopped after the suspension)',
      { ...guest, suspension },
      { deletion: { sinceMs: 10, untilMs: 15, resumes: true }, suspension: { ...suspension, resumes: false } },
    ],
  ] as const)
    it(`marks ${name} as deleted`, () => expect(planDelete(record, 10, 5)).to.deep.equal(update))

  const paused = { ...suspension, resumes: false }
  for (const [name, record, update] of [
    ['leaves a guest stopped if it was stopped before the deletion', marked(false), { deletion: null }],
    ['starts a guest that ran before the deletion', marked(true), { deletion: null, wanted: 'running' }],
    [
      'leaves a guest stopped if it has expired since the deletion',
      { ...marked(true), policy: { expired: true, overQuota: false } },
      { deletion: null },
    ],
    [
      'lets the guest start when its suspension ends',
      { ...marked(true), suspension: paused },
      { deletion: null, suspension },
    ],
    [
      'starts a guest whose suspension permits it to run',
      { ...marked(true), suspension: { ...paused, mode: 'network' } },
      { deletion: null, wanted: 'running' },
    ],
    ['changes nothing for a guest that is not deleted', guest, { deletion: null }],
  ] as const)
    it(`is undone by a change that ${name}`, () => expect(planUndelete(record)).to.deep.equal(update))

  it('prevents other changes of the guest until it is undone', () => {
    expect(() => refuseDeleted(marked(true))).to.throw('undelete it first')
    refuseDeleted(guest)
  })
})
