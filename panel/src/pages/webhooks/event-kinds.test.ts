import { expect } from 'chai'
import { shownWords, wordsOf, type EventKind } from './event-kinds.ts'

describe('events of a webhook', () => {
  for (const [kinds, words] of [
    [['guest', 'task', 'host', 'alert'], ['*']],
    [['guest'], ['guest.*']],
    [
      ['guest', 'alert'],
      ['guest.*', 'alert.*'],
    ],
  ] as const)
    it(kinds.join(' '), () => expect(wordsOf(kinds as readonly EventKind[])).to.deep.equal(words))

  it('are shown by name, single events unchanged', () => {
    const shown = shownWords(['*', 'guest.*', 'task.failed'], (kind) => kind.toUpperCase())
    expect(shown).to.equal('*, GUEST, task.failed')
  })
})
