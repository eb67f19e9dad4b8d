import { expect } from 'chai'
import { ApiFailure } from '../api/failure.ts'
import { readError, readLines, rowsAsCsv } from './log-csv.ts'

describe('the export of a log', () => {
  it('has a column for each field of any entry, and quotes values', () => {
    const lines = '{"time":"2026-01-01 10:00:00","detail":"a, b"}\n{"time":"2026-01-01 11:00:00","count":2}\n'
    expect(rowsAsCsv(readLines(lines))).to.equal(
      'time,detail,count\r\n2026-01-01 10:00:00,"a, b",\r\n2026-01-01 11:00:00,,2\r\n',
    )
  })

  it('is empty without entries', () => expect(rowsAsCsv(readLines(''))).to.equal(''))

  it('fails with its own code if an answer is not JSON', () =>
    expect(() => readLines('<html>\n</html>'))
      .to.throw(ApiFailure)
      .with.property('code', 'unreadable_answer'))

  for (const [name, body, code] of [
    ['of the gateway', '{"code":"store_unavailable"}', 'store_unavailable'],
    ['of a proxy', '<html>502</html>', 'unreadable_answer'],
    ['without a body', '', 'unreadable_answer'],
  ] as const)
    it(`shows an error ${name}`, () => expect(readError(body)).to.have.property('code', code))
})
