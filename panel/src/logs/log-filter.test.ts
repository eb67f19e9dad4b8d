import { expect } from 'chai'
import { linesAsCsv } from './log-csv.ts'
import { auditQueryOf, loginQueryOf, noLogFilter } from './log-filter.ts'

describe('the filter of the logs', () => {
  it('sends nothing that is empty', () => {
    expect(auditQueryOf(noLogFilter)).to.deep.equal({})
    expect(loginQueryOf(noLogFilter)).to.deep.equal({})
  })

  it('sends action and object only to the log of changes', () => {
    const filter = {
      user: ' ada ',
      action: 'container.start',
      target: 'web1',
      result: 'failure',
      from: 'a',
      to: 'b',
    } as const
    const common = { success: false, from: 'a', to: 'b' }
    expect(auditQueryOf(filter)).to.deep.equal({ user: 'ada', action: 'container.start', target: 'web1', ...common })
    expect(loginQueryOf(filter)).to.deep.equal({ username: 'ada', ...common })
  })
})

describe('the export of a log', () => {
  it('has a column for each field of any entry, and quotes values', () => {
    const lines = '{"time":"2026-01-01 10:00:00","detail":"a, b"}\n{"time":"2026-01-01 11:00:00","count":2}\n'
    expect(linesAsCsv(lines)).to.equal('time,detail,count\r\n2026-01-01 10:00:00,"a, b",\r\n2026-01-01 11:00:00,,2\r\n')
  })

  it('is empty without entries', () => expect(linesAsCsv('')).to.equal(''))
})
