import { createHash, randomUUID } from 'node:crypto'
import { BerthError } from '../../shared/errors.js'
import { outcomeUnknown } from '../access/audit-record.js'
import type { Principal } from '../access/principal.js'
import { errorReply, mayTurnOutBetter, type ErrorReply } from './errors.js'
import type { AccessControl, AuditOutcome, Idempotency, IdempotencyClaim, StoredAnswer } from '../access/contract.js'
import type { Reply } from './reply.js'
import { bodyLength, bodyText } from './reply-body.js'

/** A validated request that changes something, or a read by POST, which is not audited. */
export interface Write {
  readonly method: string
  /** Without the version prefix. */
  readonly path: string
  readonly querystring: string
  readonly bodyBytes: Buffer
  /** `undefined`: none was sent. */
  readonly idempotencyKey: string | undefined
  readonly caller: Principal
  /** Address of the client. */
  readonly address: string
  readonly requestId: string
  /** `undefined`: not audited. */
  readonly action: string | undefined
  readonly target: string
}

/** The outcome of a handler: its reply and its audit entry's texts. */
export interface HandlerOutcome {
  readonly reply: Reply
  readonly target: string
  readonly detail: string
  readonly containerUuid?: string
  readonly error?: unknown
  /** Completed only in part: another attempt may complete more. */
  readonly unsettled?: boolean
}

/** Never throws: a failure is a `Handled` with its reply. */
export type WriteHandler = (operationId: string) => Promise<HandlerOutcome>

type Access = Pick<AccessControl, 'audit' | 'idempotency'>

/**
 * Runs a write once per Idempotency-Key, between the two halves of its audit entry.
 * @param report called with failures after the effect, which cannot change the answer any more
 * @throws {BerthError} before any effect
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
    // If the answer could not be stored, a repeat makes it again; operations still run only once.
    await settle(access.idempotency, claim, handled).catch(report)
    return handled
  } catch (error) {
    await access.idempotency.release(claim).catch(report)
    throw error
  }
}

async function runAudited(
  access: Access,
  write: Write,
  handle: () => Promise<HandlerOutcome>,
  report: (error: unknown) => void,
): Promise<HandlerOutcome> {
  const { action, caller, address, requestId, target } = write
  if (action === undefined) return handle()
  const entry = await access.audit.begin({ action, caller, address, requestId, target })
  const handled = await handle()
  // The begun entry is durable, and the audit log retries by itself; the answer, which may contain the only copy of a
  // password, is not withheld.
  await access.audit.finish(entry, outcomeOf(handled)).catch(report)
  return handled
}

function outcomeOf(handled: HandlerOutcome): AuditOutcome {
  const { target, detail, containerUuid } = handled
  return { success: handled.reply.status < 400, target, detail, containerUuid }
}

/** Longer answers are not stored: a repeat runs the handler again, for the same operation. */
export const maxKeptBytes = 262_144

/** Stores the answer unless another attempt may have a better outcome. */
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

/** A handler's failure with its reply and its audit entry's texts. */
export function failedHandling(
  error: unknown,
  about: { target: string; containerUuid?: string },
  requestId: string,
): HandlerOutcome {
  const reply = errorReply(error, requestId)
  return { reply, ...about, detail: describeFailure(reply, error), error }
}

function describeFailure({ status, code }: ErrorReply, error: unknown): string {
  // The operation was sent, and may be executed although no answer arrived.
  if (status === 504) return `${outcomeUnknown}: ${code}`
  // Without causes, which are for the log and mention gRPC or the store.
  const own = error instanceof Error ? error.message : ''
  return status >= 500 ? code : `${code}: ${own.slice(0, 200)}`
}
