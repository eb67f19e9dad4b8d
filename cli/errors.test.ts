import { expect } from 'chai'
import { parseRefusal } from '../client/http/refusal.js'
import { RefusedError } from '../client/index.js'
import { closeError } from './consoles/close-error.js'
import { cliErrorOf, exitCodeOf } from './errors.js'

describe('the exit code of the command line', () => {
  for (const [status, code] of [
    [400, 2],
    [401, 4],
    [403, 4],
    [404, 3],
    [409, 5],
    [412, 5],
    [422, 2],
    [429, 6],
    [500, 1],
    [502, 6],
    [503, 6],
    [504, 6],
  ] as const)
    it(`is ${code} if the API answers ${status}`, () => expect(exitCodeOf(status)).to.equal(code))

  for (const [closeCode, code] of [
    [1000, undefined],
    [1001, 6],
    [4403, 4],
    [4404, 3],
    [4409, 5],
    [4408, 1],
  ] as const)
    it(`is ${code ?? 0} if a console is closed with the code ${closeCode}`, () =>
      expect(closeError(closeCode, 'idle')?.exitCode).to.equal(code))
})

describe('an error message of the command line', () => {
  it('contains the command that shows the task, if the task possibly still runs', () => {
    const text = '{"message": "the host did not answer", "code": "agent_timeout", "details": {"task_id": "t1"}}'
    const { message, hint } = cliErrorOf(new RefusedError(504, parseRefusal(504, text)))!
    expect(message).to.equal('the host did not answer (agent_timeout)')
    expect(hint).to.contain('berth task get t1')
  })

  it('contains only the HTTP status if a proxy sent the answer', () => {
    expect(parseRefusal(502, '<html>')).to.deep.equal({ message: 'the server refused the request', code: 'http_502' })
    expect(parseRefusal(502, 'null').code).to.equal('http_502')
  })
})
