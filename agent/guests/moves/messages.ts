import { Type, type Static, type TSchema } from 'typebox'
import { validateConfig } from '../../../shared/config.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { maxFirewallLength } from '../snapshots/backup-settings.js'

/*
 * Messages of a transfer between two agents. The target sends one answer to each request of the source. If a request
 * has data, the data follows the request and ends with the message `end`.
 */

const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const snapshotId = Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' })

const requestSchema = Type.Union([
  /** Lists the complete snapshots that the target has. */
  Type.Object({ kind: Type.Literal('list') }),
  /**
   * Announces a snapshot, which follows as data. If `parent` is set, the data is the difference to that snapshot.
   * `firewall`: the guest's firewall in the form of `encodeFirewall`. Only for standbys, since moves send a manifest.
   */
  Type.Object({
    kind: Type.Literal('disk'),
    id: snapshotId,
    parent: Type.Optional(snapshotId),
    firewall: Type.Optional(Type.String({ maxLength: maxFirewallLength })),
  }),
  /** Asks whether the guest would still fit on the target. The guest's manifest follows as data. */
  Type.Object({ kind: Type.Literal('check') }),
  /**
   * Asks the target to prepare the arrival of a running guest, and to make the guest's disk from this snapshot. The
   * driver's facts about the guest follow as data. The memory is then sent on a separate connection.
   */
  Type.Object({ kind: Type.Literal('prepare'), id: snapshotId }),
  /**
   * Asks the target to make the guest's disk from this snapshot. The guest's manifest follows as data. `live`: the
   * arrival was prepared, and the last part of the guest's memory follows.
   */
  Type.Object({ kind: Type.Literal('finish'), id: snapshotId, live: Type.Optional(Type.Boolean()) }),
  /**
   * Announces the part of the guest's history after the position that the target has returned. It follows as data. The
   * target stores it until it owns the guest.
   */
  Type.Object({ kind: Type.Literal('history') }),
  /** Asks whether the memory of the running guest has arrived completely. */
  Type.Object({ kind: Type.Literal('confirm') }),
  /** Marks the end of the data of a request, and states its length. */
  Type.Object({ kind: Type.Literal('end'), bytes: Type.Integer({ minimum: 0 }) }),
])
export type TransferRequest = Static<typeof requestSchema>
export type DiskRequest = Extract<TransferRequest, { kind: 'disk' }>

const answerSchema = Type.Object({
  error: Type.Optional(
    Type.Object({ code: Type.String({ maxLength: 64 }), message: Type.String({ maxLength: 1000 }) }),
  ),
  snapshots: Type.Optional(Type.Array(snapshotId, { maxItems: 2000 })),
  /** Only in answers to `list`: position up to which the target has the guest's history. Absent: an older target. */
  history: Type.Optional(Type.Object({ revision: count, atMs: count })),
})
export type TransferAnswer = Static<typeof answerSchema>

export function parseRequest(message: unknown): TransferRequest {
  return parseMessage(requestSchema, message)
}

/** Returns the answer. @throws {BerthError} the error of the target */
export function parseAnswer(message: unknown): TransferAnswer {
  const answer = parseMessage(answerSchema, message)
  if (answer.error)
    throw new BerthError('conflict', answer.error.code, `the target host reported: ${answer.error.message}`)
  return answer
}

/** Checks a message of another host. @throws {BerthError} `bad_stream` */
export function parseMessage<S extends TSchema>(schema: S, message: unknown): Static<S> {
  try {
    return validateConfig(schema, message, 'transfer')
  } catch (cause) {
    throw Object.assign(conflict('bad_stream', 'the other host sent a malformed message'), { cause })
  }
}
