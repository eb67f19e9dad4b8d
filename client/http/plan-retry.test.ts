import { expect } from 'chai'
import { RefusedError, UnreachableError } from './errors.js'
import { planRetry } from './plan-retry.js'

const limits = { attempts: 5, connectAttempts: 3, maxDelayMs: 30_000 }
const refused = (status: number, code: string, seconds?: number): RefusedError =>
  new RefusedError(status, { message: 'refused', code }, seconds)
const lost = new UnreachableError('lost', 'ECONNRESET', true)
const unsent = new UnreachableError('refused', 'ECONNREFUSED', false)

describe('a failed request of the client', () => {
  for (const [name, method, error, delays] of [
    [
      'is repeated after Retry-After if it exceeds the rate limit',
      'DELETE',
      refused(429, 'rate_limited', 3),
      [3000, 3000],
    ],
    ['is not repeated if Retry-After exceeds the limit', 'GET', refused(429, 'rate_limited', 60), [undefined]],
    ['is repeated after Retry-After if the store is unavailable', 'POST', refused(503, 'store_unavailable', 5), [5000]],
    ['is not repeated if the host is offline', 'POST', refused(503, 'host_offline', 5), [undefined]],
    ['is not repeated if the gateway refuses it as invalid', 'POST', refused(400, 'invalid_field'), [undefined]],
    [
      'with POST is repeated with growing pauses if its connection is lost',
      'POST',
      lost,
      [500, 1000, 2000, 4000, undefined],
    ],
    ['with PUT is repeated if its connection is lost', 'PUT', lost, [500]],
    ['with DELETE is not repeated if its connection is lost', 'DELETE', lost, [undefined]],
    ['with PATCH is not repeated if its connection is lost', 'PATCH', lost, [undefined]],
    ['that was never sent is repeated with every method', 'DELETE', unsent, [500, 1000, undefined]],
    [
      'is repeated if a repetition finds that the task of the first attempt still runs',
      'POST',
      refused(409, 'task_running'),
      [undefined, 1000],
    ],
    ['is not repeated after an error of the program', 'GET', new TypeError('wrong'), [undefined]],
  ] as const)
    it(name, () => {
      const planned = delays.map((_, at) => planRetry({ method, isConditional: false, attempt: at + 1, error }, limits))
      expect(planned).to.deep.equal(delays)
    })

  it('with If-Match is not repeated if its connection is lost', () => {
    expect(planRetry({ method: 'PUT', isConditional: true, attempt: 1, error: lost }, limits)).to.equal(undefined)
  })
})
