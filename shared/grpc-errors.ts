import { Metadata, status, type ServiceError } from '@grpc/grpc-js'
import type { ConsoleRefusal } from '../proto/gen/berth/agent/v1/console.js'
import { BerthError, toBerthError, type ErrorKind } from './errors.js'
import { StaleEpochError, staleEpochCode } from './fence.js'

/*
 * This module converts a BerthError to a gRPC status and back. The metadata contains the stable code as `berth-code`,
 * the invalid field as `berth-field` and the highest known epoch as `berth-epoch`. `berth-undone` states whether the
 * change was rolled back. Causes are not sent.
 */

const statusOfKind: Readonly<Record<ErrorKind, status>> = {
  invalid: status.INVALID_ARGUMENT,
  unauthenticated: status.UNAUTHENTICATED,
  forbidden: status.PERMISSION_DENIED,
  not_found: status.NOT_FOUND,
  conflict: status.FAILED_PRECONDITION,
  exhausted: status.RESOURCE_EXHAUSTED,
  unavailable: status.UNAVAILABLE,
  timeout: status.DEADLINE_EXCEEDED,
  unsupported: status.UNIMPLEMENTED,
  internal: status.INTERNAL,
}

/** Maps the gRPC status of an agent's error to its kind. The gateway passes these errors on to API clients. */
const passedKinds: ReadonlyMap<status, ErrorKind> = new Map([
  [status.INVALID_ARGUMENT, 'invalid'],
  [status.NOT_FOUND, 'not_found'],
  [status.FAILED_PRECONDITION, 'conflict'],
  [status.ABORTED, 'conflict'],
  [status.ALREADY_EXISTS, 'conflict'],
  [status.RESOURCE_EXHAUSTED, 'exhausted'],
  [status.UNAVAILABLE, 'unavailable'],
])

export interface GrpcStatus {
  code: status
  details: string
  metadata: Metadata
}

const maxDetails = 1024

/** Converts any error to the gRPC status of an agent's answer. Only the status of a BerthError shows details. */
export function toStatus(error: unknown, step = 'internal error'): GrpcStatus {
  const known = toBerthError(error, step)
  const metadata = new Metadata()
  metadata.set('berth-code', known.code)
  if (known.field !== undefined) metadata.set('berth-field', known.field)
  if (known.undone) metadata.set('berth-undone', '1')
  if (known instanceof StaleEpochError) metadata.set('berth-epoch', String(known.highest))
  const code = known.code === 'operation_conflict' ? status.ABORTED : statusOfKind[known.kind]
  return { code, details: known.message.slice(0, maxDetails), metadata }
}

/** Converts an error to an Error with a gRPC status, for callbacks and `stream.destroy`. */
export function toServiceError(error: unknown, step?: string): ServiceError {
  return serviceError(toStatus(error, step))
}

/** Converts an error to a message for console streams, which do not use gRPC. */
export function toRefusal(error: BerthError): ConsoleRefusal {
  const { code, details, metadata } = toStatus(error)
  const [word = '', field = ''] = ['berth-code', 'berth-field'].map((key) => String(metadata.get(key)[0] ?? ''))
  return { status: code, code: word, field, message: details }
}

/** Converts a console's refusal to an error that {@link fromServiceError} can read. */
export function refusalError(refusal: ConsoleRefusal): ServiceError {
  const metadata = new Metadata()
  metadata.set('berth-code', refusal.code)
  if (refusal.field !== '') metadata.set('berth-field', refusal.field)
  return serviceError({ code: refusal.status, details: refusal.message, metadata })
}

/** Makes the error for a connection that was never established or that broke. */
export function brokenError(cause: Error | undefined): ServiceError {
  const details = cause?.message ?? 'the connection was closed'
  return serviceError({ code: status.UNAVAILABLE, details, metadata: new Metadata() })
}

function serviceError(of: GrpcStatus): ServiceError {
  return Object.assign(new Error(of.details), of)
}

/**
 * Converts the failure of a call to an agent. If the failure concerns the request, the agent's code is passed on. If
 * the agent rejects the gateway itself, has a bug or sends a malformed status, the code becomes `agent_error`.
 * @param call.left true if the call was sent: the agent may have executed it even if no answer arrived
 */
export function fromServiceError(error: unknown, { step, left }: { step: string; left: boolean }): BerthError {
  if (error instanceof BerthError) return error
  if (!isServiceError(error)) return new BerthError('internal', 'agent_error', step, { cause: error })
  const kind = passedKinds.get(error.code)
  const code = readText(error, 'berth-code', /^[a-z][a-z0-9_]{0,63}$/)
  if (error.code === status.PERMISSION_DENIED && code && refusalsOfGuests.has(code))
    return passedError('forbidden', code, error)
  if (kind && code) return passedError(kind, code, error)
  if (unanswered.has(error.code)) return new UnansweredError(left, error)
  const undone = readText(error, 'berth-undone', /^1$/) ? '; the earlier settings stay in effect' : ''
  return new BerthError(
    'internal',
    'agent_error',
    `the host could not carry out "${step}": see the log of its agent${undone}`,
    { cause: error },
  )
}

/** Refusals with the status PERMISSION_DENIED that concern the guest, not the gateway. */
const refusalsOfGuests: ReadonlySet<string> = new Set(['policy_blocked', 'quota_exceeded'])

/** Statuses of calls without an answer: there is no connection, the connection broke, or the peer stayed silent. */
const unanswered: ReadonlySet<status> = new Set([status.UNAVAILABLE, status.CANCELLED, status.DEADLINE_EXCEEDED])

/** The error of a call that the peer did not answer. */
export class UnansweredError extends BerthError {
  /** @param left true if the call has left this process, so that the peer may have executed it */
  constructor(
    readonly left: boolean,
    cause: unknown,
  ) {
    if (left) super('timeout', 'agent_timeout', unansweredText, { cause })
    else super('unavailable', 'host_offline', 'the host is not reachable: try again later', { cause })
  }
}

const unansweredText = 'the host did not answer in time; the request may have been carried out'

function passedError(kind: ErrorKind, code: string, error: ServiceError): BerthError {
  const field = readText(error, 'berth-field', /^[a-z0-9_.[\]]{1,100}$/)
  const message = error.details.slice(0, maxDetails) || code
  if (code === staleEpochCode) {
    // The next lease gets an epoch above this one. The limit of 12 digits keeps a faulty agent from exhausting them.
    const highest = Number(readText(error, 'berth-epoch', /^\d{1,12}$/) ?? 0)
    return new StaleEpochError(highest, message, error)
  }
  return new BerthError(kind, code, message, { cause: error, ...(field === undefined ? {} : { field }) })
}

function readText(error: ServiceError, key: string, pattern: RegExp): string | undefined {
  const [value] = error.metadata?.get(key) ?? []
  return typeof value === 'string' && pattern.test(value) ? value : undefined
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && typeof (error as Partial<ServiceError>).code === 'number'
}
