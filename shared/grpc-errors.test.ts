import { Metadata, status, type ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import { BerthError, conflict, invalidField, notFound, type ErrorKind } from './errors.js'
import { fromServiceError, toServiceError, toStatus } from './grpc-errors.js'

function received(code: status, metadata: Record<string, string> = {}): ServiceError {
  const entries = new Metadata()
  for (const [key, value] of Object.entries(metadata)) entries.set(key, value)
  return Object.assign(new Error('x'), { code, details: 'x', metadata: entries })
}

describe('an error that crosses gRPC', () => {
  for (const [error, code] of [
    [invalidField('name', 'name: too long'), status.INVALID_ARGUMENT],
    [notFound('guest'), status.NOT_FOUND],
    [conflict('task_running', 'it runs'), status.FAILED_PRECONDITION],
    [conflict('operation_conflict', 'another request'), status.ABORTED],
    [new BerthError('forbidden', 'policy_blocked', 'the traffic quota is used up'), status.PERMISSION_DENIED],
    [new BerthError('forbidden', 'quota_exceeded', 'no more snapshots'), status.PERMISSION_DENIED],
    [new BerthError('exhausted', 'resource_exhausted', 'no port left'), status.RESOURCE_EXHAUSTED],
    [new BerthError('unavailable', 'pool_busy', 'again later'), status.UNAVAILABLE],
  ] as const)
    it(`with the code ${error.code} is received unchanged`, () => {
      const sent = toServiceError(error)
      expect(sent.code).to.equal(code)
      const got = fromServiceError(sent, { step: 'step', left: true })
      expect([got.kind, got.code, got.message, got.field]).to.deep.equal([
        error.kind,
        error.code,
        error.message,
        error.field,
      ])
    })

  it('contains no details except the failed step, and whether the change was rolled back', () => {
    const failure = Object.assign(new BerthError('internal', 'internal_error', 'nft died'), { undone: true })
    const { code, message } = fromServiceError(toServiceError(failure), { step: 'set firewall', left: true })
    expect([code, message]).to.deep.equal([
      'agent_error',
      'the host could not carry out "set firewall": see the log of its agent; the earlier settings stay in effect',
    ])
  })

  it('contains no details of an internal error', () => {
    const sent = toStatus(new Error('secret path /etc/shadow'))
    expect([sent.code, sent.details]).to.deep.equal([status.INTERNAL, 'internal error'])
  })

  for (const [name, error, kind, code] of [
    ['if the connection broke', received(status.UNAVAILABLE), 'timeout', 'agent_timeout'],
    ['if the call was cancelled', received(status.CANCELLED), 'timeout', 'agent_timeout'],
    ['if the agent did not answer in time', received(status.DEADLINE_EXCEEDED), 'timeout', 'agent_timeout'],
    [
      'if the agent reports an internal error',
      received(status.INTERNAL, { 'berth-code': 'internal_error' }),
      'internal',
      'agent_error',
    ],
    ['if the agent does not know the method', received(status.UNIMPLEMENTED), 'internal', 'agent_error'],
    [
      'if the agent refuses the identity of the gateway',
      received(status.UNAUTHENTICATED, { 'berth-code': 'unauthorized' }),
      'internal',
      'agent_error',
    ],
    [
      'if the agent rejects the call because the gateway lacks a scope',
      received(status.PERMISSION_DENIED, { 'berth-code': 'insufficient_scope' }),
      'internal',
      'agent_error',
    ],
    [
      'if the agent refuses the call without a stable error code',
      received(status.NOT_FOUND),
      'internal',
      'agent_error',
    ],
    [
      'if its stable code is malformed',
      received(status.NOT_FOUND, { 'berth-code': 'Bad Code' }),
      'internal',
      'agent_error',
    ],
    ['if it was not created by gRPC', new Error('x'), 'internal', 'agent_error'],
  ] satisfies [string, Error, ErrorKind, string][])
    it(`becomes ${code} ${name}`, () => {
      const got = fromServiceError(error, { step: 'step', left: true })
      expect([got.kind, got.code]).to.deep.equal([kind, code])
    })

  for (const code of [status.UNAVAILABLE, status.CANCELLED, status.DEADLINE_EXCEEDED] as const)
    it(`becomes host_offline if its status is ${status[code]} and the call was never sent`, () => {
      const got = fromServiceError(received(code), { step: 'step', left: false })
      expect([got.kind, got.code]).to.deep.equal(['unavailable', 'host_offline'])
    })
})
