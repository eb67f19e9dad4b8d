import { expect } from 'chai'
import { shownWords, wordsOf, type EventKind } from './event-kinds.ts'

describe('the selected events of a webhook', () => {
  for (const [kinds, words] of [
    [['guest', 'task', 'host', 'alert', 'maintenance'], ['*']],
    [['guest'], ['guest.*']],
    [
      ['guest', 'alert'],
      ['guest.*', 'alert.*'],
    ],
  ] as const)
    it(`are requested from the API as ${words.join(' ')} if the user selects the kinds ${kinds.join(', ')}`, () =>
      expect(wordsOf(kinds as readonly EventKind[])).to.deep.equal(words))

  it('are shown with the name of their kind if the whole kind is selected, for example guest.*', () => {
    const shown = shownWords(['*', 'guest.*', 'task.failed'], (kind) => kind.toUpperCase())
    expect(shown).to.equal('*, GUEST, task.failed')
  })
})
