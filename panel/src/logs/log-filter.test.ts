import { expect } from 'chai'
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
