import { expect } from 'chai'
import { chooseEvents, shownWords, wordsOf } from './event-kinds.ts'

describe('the selected events of a webhook', () => {
  for (const [chosen, words] of [
    [['guest.*', 'task.*', 'host.*', 'alert.*', 'maintenance.*'], ['*']],
    [['guest.*'], ['guest.*']],
    [
      ['guest.*', 'task.failed'],
      ['guest.*', 'task.failed'],
    ],
  ] as const)
    it(`are requested from the API as ${words.join(' ')} if the user selects ${chosen.join(' ')}`, () =>
      expect(wordsOf(chosen)).to.deep.equal(words))

  for (const [name, chosen, word, isChosen, words] of [
    ['add a single event', ['guest.*'], 'task.failed', true, ['guest.*', 'task.failed']],
    ['drop a single event', ['task.done', 'task.failed'], 'task.done', false, ['task.failed']],
    ['replace single events by their kind', ['task.done', 'host.added'], 'task.*', true, ['host.added', 'task.*']],
    ['drop a kind', ['guest.*', 'task.*'], 'guest.*', false, ['task.*']],
  ] as const)
    it(name, () => expect(chooseEvents(chosen, word, isChosen)).to.deep.equal(words))

  it('are shown with the name of their kind if the whole kind is selected, for example guest.*', () => {
    const shown = shownWords(['*', 'guest.*', 'task.failed'], (kind) => kind.toUpperCase())
    expect(shown).to.equal('*, GUEST, task.failed')
  })
})
