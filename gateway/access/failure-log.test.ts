import { expect } from 'chai'
import { pino } from 'pino'
import { BerthError } from '../../shared/errors.js'
import { FailureLog } from './failure-log.js'

describe('the log of rejected callers', () => {
  const refusal = new BerthError('unauthenticated', 'unauthorized', 'no')
  const record = () => {
    const lines: { msg: string; count?: number }[] = []
    const write = (line: string) => lines.push(JSON.parse(line) as { msg: string })
    return { lines, failures: new FailureLog(pino({}, { write })) }
  }

  it('contains the first ten rejections of each period, and the number of all further rejections', () => {
    const { lines, failures } = record()
    for (let i = 0; i < 5000; i++) failures.note(refusal, '192.0.2.1', 1000)
    expect(lines).to.have.length(10)
    failures.note(refusal, '192.0.2.1', 20_000)
    expect(lines.slice(10).map(({ msg, count }) => [msg, count])).to.deep.equal([
      ['further refused authentications were not logged one by one', 4990],
      ['an authentication was refused', undefined],
    ])
  })

  it('does not contain failures of the store', () => {
    const { lines, failures } = record()
    failures.note(new BerthError('unavailable', 'store_unavailable', 'down'), '192.0.2.1')
    failures.note(new Error('bug'), '192.0.2.1')
    expect(lines).to.deep.equal([])
  })
})
