import { expect } from 'chai'
import { planSelection, rebaseSelection } from './plan-selection.ts'

describe('the selection of the guests of a customer', () => {
  const owned = ['a', 'b']
  for (const [name, selected, expected] of [
    ['causes no changes if the user has not changed the selection', owned, { added: [], removed: [] }],
    ['causes additions and removals of guests', ['b', 'c'], { added: ['c'], removed: ['a'] }],
  ] as const)
    it(name, () => expect(planSelection(owned, selected)).to.deep.equal(expected))

  for (const [name, selected, now, expected] of [
    ['shows a guest that another client has added', owned, ['a', 'b', 'x'], ['a', 'b', 'x']],
    ['omits a guest that another client has removed', owned, ['b'], ['b']],
    [
      'keeps the user’s own changes when another client has added a guest',
      ['b', 'c'],
      ['a', 'b', 'x'],
      ['b', 'x', 'c'],
    ],
    [
      'contains a guest only once if both the user and another client have added it',
      ['a', 'b', 'c'],
      ['a', 'b', 'c'],
      ['a', 'b', 'c'],
    ],
  ] as const)
    it(name, () => expect(rebaseSelection(owned, selected, now)).to.deep.equal(expected))
})
