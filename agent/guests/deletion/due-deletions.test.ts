import { expect } from 'chai'
import { pino } from 'pino'
import type { GuestRecord } from '../record/record.js'
import { DueDeletions } from './due-deletions.js'

const nowMs = 1_000_000
const due = { sinceMs: 0, untilMs: nowMs, resumes: true }
const later = { ...due, untilMs: nowMs + 1 }

type Facts = Pick<GuestRecord, 'deletion' | 'wanted'> & { role?: 'owner' | 'target'; busy?: boolean; settled?: boolean }

/** Returns what `DueDeletions` does with a guest: `removed`, `undone` or `nothing`. */
function outcomeOf({ role = 'owner', busy = false, settled = true, ...facts }: Facts): string {
  const record = { uuid: 'a guest', ownership: { role }, ...facts } as GuestRecord
  let outcome = 'nothing'
  const store = { list: () => [record], update: () => void (outcome = 'undone') }
  new DueDeletions({
    context: { store, log: pino({ enabled: false }) } as never,
    clock: { earliest: () => nowMs, isSettled: () => settled },
    busy: () => busy,
    remove: () => void (outcome = 'removed'),
  }).look()
  return outcome
}

describe('the check for deletions that are due', () => {
  for (const [what, facts, outcome] of [
    ['does not change a running guest that is not marked as deleted', { deletion: null, wanted: 'running' }, 'nothing'],
    ['does not change a stopped guest that is not marked as deleted', { deletion: null, wanted: 'stopped' }, 'nothing'],
    ['removes a stopped guest whose deletion is due', { deletion: due, wanted: 'stopped' }, 'removed'],
    ['does not remove a guest whose deletion is not due yet', { deletion: later, wanted: 'stopped' }, 'nothing'],
    [
      'does not remove a guest with an unfinished operation',
      { deletion: due, wanted: 'stopped', busy: true },
      'nothing',
    ],
    [
      'does not remove a guest while the clock is possibly wrong',
      { deletion: due, wanted: 'stopped', settled: false },
      'nothing',
    ],
    ['does not remove a copy that is being moved', { deletion: due, wanted: 'stopped', role: 'target' }, 'nothing'],
    ['undoes the deletion of a guest that should run', { deletion: due, wanted: 'running' }, 'undone'],
    [
      'does not undo a deletion while an operation stops the guest',
      { deletion: due, wanted: 'running', busy: true },
      'nothing',
    ],
  ] as readonly (readonly [string, Facts, string])[])
    it(what, () => expect(outcomeOf(facts)).to.equal(outcome))
})
