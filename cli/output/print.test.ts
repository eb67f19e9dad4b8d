import { expect } from 'chai'
import { filterWithJq } from './jq.js'
import { formatResult, type OutputOptions } from './print.js'
import { fitWidths } from './table.js'

const rows = [
  { id: 1, name: 'web1', status: 'running', tags: ['a', 'b'] },
  { id: 22, name: '数据', status: 'stopped', tags: [] },
]
const options: OutputOptions = {
  form: 'table',
  isQuiet: false,
  columns: undefined,
  width: undefined,
  command: 'x list',
}
const print = (value: unknown, more: Partial<OutputOptions> = {}, message = ''): Promise<string> =>
  formatResult(value, message, { ...options, ...more })

describe('the output of commands', () => {
  it('aligns the columns of tables, even with wide characters', async () =>
    expect(await print(rows)).to.equal(
      ['ID  NAME  STATUS   TAGS', '1   web1  running  a,b', '22  数据  stopped  -', ''].join('\n'),
    ))

  it('shortens the widest columns first, and omits columns if this is not enough', () => {
    expect(fitWidths([2, 30, 10], 30)).to.deep.equal([2, 14, 10])
    expect(fitWidths([20, 20, 20], 16)).to.deep.equal([6, 6])
    expect(fitWidths([20, 20], undefined)).to.deep.equal([20, 20])
  })

  it('replaces control characters of the terminal in tables', async () =>
    expect(await print([{ id: 1, name: 'a\u001b[2J\u009b\u202eb' }])).to.contain('a\ufffd[2J\ufffd\ufffdb'))

  it('escapes control characters of the terminal in JSON', async () =>
    expect(await print({ name: '\u009b' }, { form: 'json' })).to.equal('{\n  "name": "\\u009b"\n}\n'))

  it('reports the error of jq if jq ends before it has read everything', () =>
    expect(() => filterWithJq(JSON.stringify('a'.repeat(1_000_000)), '.[')).to.throw(/^--jq: jq: error/))

  it('quotes the cells of CSV', async () =>
    expect(await print([{ a: 'x,"y"', b: null, c: [1] }], { form: 'csv' })).to.equal('a,b,c\r\n"x,""y""",,[1]\r\n'))

  it('prints objects field by field, with tables for their lists', async () =>
    expect(await print({ quota: 3, schedule: { enabled: true }, rows })).to.match(
      /^quota {13}3\nschedule\.enabled {2}yes\n\nrows:\nID {2}NAME/,
    ))

  it('contains only the selected columns, even in JSON', async () =>
    expect(JSON.parse(await print(rows, { form: 'json', columns: 'name' }))).to.deep.equal([
      { name: 'web1' },
      { name: '数据' },
    ]))

  it('prints only ids with --quiet', async () => {
    expect(await print(rows, { isQuiet: true })).to.equal('1\n22\n')
    expect(await print({ task_id: 't1', status: 'x' }, { isQuiet: true })).to.equal('t1\n')
    expect(await print(undefined, { isQuiet: true }, 'deleted')).to.equal('')
  })

  it('prints the message of an answer without data', async () =>
    expect(await print(undefined, {}, 'deleted')).to.equal('deleted\n'))
})
