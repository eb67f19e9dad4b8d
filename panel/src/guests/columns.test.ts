import { expect } from 'chai'
import { columnNames, defaultColumns, gridOf, parseColumns } from './columns.ts'

describe('the columns of the guest list', () => {
  for (const [name, stored, expected] of [
    ['are the default columns if nothing is stored', null, undefined],
    ['are always in the fixed order of the list', 'expires,status', ['status', 'expires']],
    ['do not include unknown names', 'gone,status', ['status']],
    ['are the default columns if no stored name is known', 'gone', undefined],
    ['can all be hidden', '', []],
  ] as const)
    it(name, () => expect(parseColumns(stored)).to.deep.equal(expected))

  it('include more columns by default if the screen is wide', () =>
    expect(defaultColumns(1920).length).to.be.greaterThan(defaultColumns(1280).length))
  it('occupy one column of the grid each, next to the columns for the checkbox, the name and the buttons', () =>
    expect(gridOf(columnNames).match(/minmax\([^)]*\)|\S+/g)).to.have.length(columnNames.length + 3))
})
