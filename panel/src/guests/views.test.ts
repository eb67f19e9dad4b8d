import { expect } from 'chai'
import { noFilter } from './filter.ts'
import { isSameView, maxViews, parseViews, withView, type GuestView } from './views.ts'

const view = (fields: Partial<GuestView> = {}): GuestView => ({
  name: 'Stopped',
  columns: ['status', 'host'],
  filter: { ...noFilter, status: 'stopped' },
  sorting: { key: 'host', descending: true },
  ...fields,
})

describe('the stored views of the guest list', () => {
  it('are read as they were written', () =>
    expect(parseViews(JSON.stringify([view(), view({ name: 'All', columns: [] })]))).to.deep.equal([
      view(),
      view({ name: 'All', columns: [] }),
    ]))

  for (const [name, stored] of [
    ['nothing is stored', null],
    ['the stored text is not JSON', '[{'],
    ['the stored value is not a list', '{"name":"a"}'],
    ['no element is a view', '[1, null, "a", {}, {"name": 7}, {"name": ""}]'],
  ] as const)
    it(`are empty if ${name}`, () => expect(parseViews(stored)).to.deep.equal([]))

  it('ignore columns, filters and orders that this version does not know', () => {
    const [read] = parseViews(
      JSON.stringify([
        {
          name: 'Old',
          columns: ['gone', 'status'],
          filter: { status: 'stopped', gone: 'x', host: 7 },
          sorting: { key: 'gone', descending: 'yes' },
        },
      ]),
    )
    expect(read).to.deep.equal(view({ name: 'Old', columns: ['status'], sorting: { key: 'name', descending: false } }))
  })

  it('are limited in number', () => {
    const many = Array.from({ length: maxViews + 3 }, (_, at) => view({ name: `v${at}` }))
    expect(parseViews(JSON.stringify(many))).to.have.length(maxViews)
  })

  it('have different names and are sorted by them', () => {
    const all = withView(withView([view({ name: 'b' })], view({ name: 'a' })), view({ name: 'b', columns: [] }))
    expect(all.map(({ name, columns }) => [name, columns.length])).to.deep.equal([
      ['a', 2],
      ['b', 0],
    ])
  })

  it('are recognized by their content, not by their names', () => {
    expect(isSameView(view(), view({ name: 'Other' }))).to.equal(true)
    for (const other of [
      view({ columns: ['status'] }),
      view({ filter: noFilter }),
      view({ sorting: { key: 'host', descending: false } }),
    ])
      expect(isSameView(view(), other)).to.equal(false)
  })
})
