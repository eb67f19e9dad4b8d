import { expect } from 'chai'
import { planSelection, rebaseSelection } from './plan-selection.ts'

describe('the selection of the guests of a customer', () => {
  const owned = ['a', 'b']
  for (const [name, selected, expected] of [
    ['changes nothing at first', owned, { added: [], removed: [] }],
    ['adds and removes guests', ['b', 'c'], { added: ['c'], removed: ['a'] }],
  ] as const)
    it(name, () => expect(planSelection(owned, selected)).to.deep.equal(expected))

  for (const [name, selected, now, expected] of [
    ['shows a guest that another client has added', owned, ['a', 'b', 'x'], ['a', 'b', 'x']],
    ['omits a guest that another client has removed', owned, ['b'], ['b']],
    ['keeps the own changes when another client has added a guest', ['b', 'c'], ['a', 'b', 'x'], ['b', 'x', 'c']],
    ['contains a guest once that both clients have added', ['a', 'b', 'c'], ['a', 'b', 'c'], ['a', 'b', 'c']],
  ] as const)
    it(name, () => expect(rebaseSelection(owned, selected, now)).to.deep.equal(expected))
})
