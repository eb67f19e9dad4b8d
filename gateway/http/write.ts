import { createHash, randomUUID } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { outcomeUnknown } from '../access/audit-record.js'
import type { Principal } from '../access/principal.js'
import { errorReply, mayTurnOutBetter, type ErrorReply } from './errors.js'
import type { AccessControl, AuditOutcome, Idempotency, IdempotencyClaim, StoredAnswer } from '../access/contract.js'
import type { Reply } from './reply.js'
import { bodyLength, bodyText } from './reply-body.js'

/** A validated request that makes a change, or a POST that only reads. The latter is not audited. */
export interface Write {
  readonly method: string
  /** Path of the request without the version prefix. */
  readonly path: string
  readonly querystring: string
  readonly bodyBytes: Buffer
  /** Value of the Idempotency-Key header. `undefined`: it was not sent. */
  readonly idempotencyKey: string | undefined
  readonly caller: Principal
  readonly address: string
  readonly requestId: string
  /** Action in the audit log. `undefined`: the request is not audited. */
  readonly action: string | undefined
  readonly target: string
}

/** Result of a handler: its response, and texts for the audit entry. */
export interface HandlerOutcome {
  readonly reply: Reply
  readonly target: string
  readonly detail: string
  readonly containerUuid?: string
  readonly error?: unknown
  /** True if the request succeeded only in part. Its answer is not stored, so that a repetition can complete it. */
  readonly unsettled?: boolean
}

/** A function that handles a write. Its promise never rejects. After a failure, the outcome contains the response. */
export type WriteHandler = (operationId: string) => Promise<HandlerOutcome>

type Access = Pick<AccessControl, 'audit' | 'idempotency' | 'shared'>

/**
 * Runs a write once for each Idempotency-Key. The audit entry is begun before the write, and completed after it.
 * @param report called with errors that occur after the write; they do not change the answer
 * @throws {BerthError} if the write was not run
 */
export async function runWrite(
  access: Access,
  write: Write,
  handle: WriteHandler,
  report: (error: unknown) => void,
): Promise<HandlerOutcome> {
  if (write.idempotencyKey === undefined) return runAudited(access, write, () => handle(randomUUID()), report)
  const begun = await access.idempotency.begin({
    caller: write.caller,
    key: checkKey(write.idempotencyKey),
    fingerprint: fingerprintOf(write),
  })
  if ('replay' in begun) return { reply: replayOf(begun.replay), target: write.target, detail: 'replayed' }
  return runClaimed(access, begun.claim, write, handle, report)
}

async function runClaimed(
  access: Access,
  claim: IdempotencyClaim,
  ...[write, handle, report]: [Write, WriteHandler, (error: unknown) => void]
): Promise<HandlerOutcome> {
  try {
    const handled = await runAudited(access, write, () => handle(claim.operationId), report)
    // If the answer could not be stored, a repeated request runs the handler again, with the same operation id.
    await settle(access.idempotency, claim, handled).catch(report)
    return handled
  } catch (error) {
    await access.idempotency.release(claim).catch(report)
    throw error
  }
}

/** Runs a write. When the promise resolves, the change is visible at all gateways. */
async function runAudited(
  access: Access,
  write: Write,
  handle: () => Promise<HandlerOutcome>,
  report: (error: unknown) => void,
): Promise<HandlerOutcome> {
  const { action, caller, address, requestId, target } = write
  if (action === undefined) return runUnaudited(access, handle)
  const entry = await access.audit.begin({ action, caller, address, requestId, target })
  const handled = await handle()
  const visible = access.shared.visibleEverywhere()
  // The answer can contain the only copy of a password. It is therefore sent even if `finish` fails. In this case, the
  // audit log adds the outcome later.
  await access.audit.finish(entry, outcomeOf(handled)).catch(report)
  await visible
  return handled
}

async function runUnaudited({ shared }: Access, handle: () => Promise<HandlerOutcome>): Promise<HandlerOutcome> {
  const handled = await handle()
  await shared.visibleEverywhere()
  return handled
}

function outcomeOf(handled: HandlerOutcome): AuditOutcome {
  const { target, detail, containerUuid } = handled
  return { success: handled.reply.status < 400, target, detail, containerUuid }
}

/** Longer answers are not stored. A repeated request then runs the handler again with the same operation id. */
export const maxKeptBytes = 262_144

/** Stores the answer. If a repeated request can have a better result, releases the Idempotency-Key instead. */
function settle(idempotency: Idempotency, claim: IdempotencyClaim, handled: HandlerOutcome): Promise<void> {
  const { reply, unsettled = false } = handled
  const { status, headers } = reply
  const isLong = bodyLength(reply.body) > maxKeptBytes
  if (isLong || unsettled || mayTurnOutBetter(status)) return idempotency.release(claim)
  return idempotency.finish(claim, { status, headers, body: bodyText(reply.body) })
}

function replayOf(answer: StoredAnswer): Reply {
  return { ...answer, headers: { ...answer.headers, 'Idempotency-Replayed': 'true' } }
}

function checkKey(key: string): string {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new BerthError('invalid', 'invalid_field', 'Idempotency-Key: must be 1 to 255 printable ASCII characters', {
    field: 'Idempotency-Key',
  })
}

function fingerprintOf(write: Write): string {
  return createHash('sha256')
    .update(`${write.method} ${write.path}?${write.querystring}\n`)
    .update(write.bodyBytes)
    .digest('base64url')
}

/** Converts the error of a handler to its response, and texts for the audit entry. */
export function failedHandling(
  error: unknown,
  about: { target: string; containerUuid?: string },
  requestId: string,
): HandlerOutcome {
  const reply = errorReply(error, requestId)
  return { reply, ...about, detail: describeFailure(reply, error), error }
}

function describeFailure({ status, code }: ErrorReply, error: unknown): string {
  // The agent has not answered, but has possibly received the operation.
  if (status === 504) return `${outcomeUnknown}: ${code}`
  // The causes of the error are omitted, because only the log may contain internal details.
  const own = error instanceof Error ? error.message : ''
  return status >= 500 ? code : `${code}: ${own.slice(0, 200)}`
}
