import { expect } from 'chai'
import { shownWords, wordsOf, type EventKind } from './event-kinds.ts'

describe('the events of a webhook', () => {
  for (const [kinds, words] of [
    [['guest', 'task', 'host', 'alert'], ['*']],
    [['guest'], ['guest.*']],
    [
      ['guest', 'alert'],
      ['guest.*', 'alert.*'],
    ],
  ] as const)
    it(`are requested as ${words.join(' ')} for the kinds ${kinds.join(', ')}`, () =>
      expect(wordsOf(kinds as readonly EventKind[])).to.deep.equal(words))

  it('are shown by the names of their kinds, and single events unchanged', () => {
    const shown = shownWords(['*', 'guest.*', 'task.failed'], (kind) => kind.toUpperCase())
    expect(shown).to.equal('*, GUEST, task.failed')
  })
})
