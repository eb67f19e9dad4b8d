import { Type, type Static, type TSchema } from 'typebox'
import { Check, Clean } from 'typebox/value'
import { abuseTypes, alertActions, severities } from '../../shared/abuse.js'
import { uuidPattern } from '../../shared/guest-rules.js'
import { parseMessage } from '../guests/moves/messages.js'
import { lastTimeMs } from '../guests/parse-settings.js'
import type { RecordedFlow } from '../abuse/contract.js'
import { longestGraceSeconds } from '../config/security.js'
import { keptSamples, type AlertState } from '../abuse/plan-merge.js'
import { clockMs, maxTextLength } from '../history/plan-transfer.js'
import { movedSubjects, type MovedOperation } from '../operations/moved-operations.js'

/*
 * The history of a guest as it moves between agents: ended operations, alerts, and records of its series. An item that
 * this agent cannot store is dropped, so that a newer version of the other agent does not prevent the move.
 */

/** Maximum numbers of operations and alerts that move with a guest. The newest ones move. */
export const mostMoved = { operation: 1000, alert: 200 } as const
/** Maximum length of a text in an item. Longer texts are cut before they are sent. */
export const maxTextChars = 2000

const words = <T extends string>(values: readonly T[]) => Type.Union(values.map((value) => Type.Literal(value)))
const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const time = Type.Integer({ minimum: 0, maximum: lastTimeMs })
const ended = Type.Integer({ minimum: 1, maximum: lastTimeMs })
const text = Type.String({ maxLength: maxTextChars })
const address = Type.String({ maxLength: 64 })
const id = Type.String({ pattern: uuidPattern })
const port = Type.Integer({ minimum: 0, maximum: 65_535 })

const operation = Type.Object({
  id,
  action: Type.String({ pattern: '^[a-z][a-z_-]{0,63}$' }),
  subjectKind: words(movedSubjects),
  status: words(['done', 'failed', 'canceled']),
  progress: Type.Integer({ minimum: 0, maximum: 100 }),
  errorCode: Type.String({ maxLength: 64 }),
  error: text,
  requestedBy: Type.String({ maxLength: 300 }),
  requestHash: Type.String({ maxLength: 128 }),
  createdAtMs: time,
  startedAtMs: time,
  finishedAtMs: ended,
  downtimeMs: count,
})

const flow = Type.Object({
  atMs: time,
  outcome: words(['opened', 'refused', 'unanswered', 'answered']),
  target: address,
  protocol: Type.String({ maxLength: 16 }),
  port,
  count,
  replyBytes: Type.Optional(count),
})

const alert = Type.Object({
  id,
  type: words(abuseTypes),
  severity: words(severities),
  sourceIp: address,
  targetIp: address,
  targetPort: port,
  detail: text,
  firstAtMs: time,
  lastAtMs: time,
  count,
  action: words(alertActions),
  stopAtMs: time,
  criticalAtMs: time,
  suspicion: Type.Optional(Type.Object({ sinceMs: time, lastMs: time })),
  samples: Type.Array(flow, { maxItems: keptSamples }),
})

/** An alert as it moves with its guest. The receiving host adds the guest itself. */
export interface SentAlert extends Omit<AlertState, 'guestUuid' | 'guestId' | 'guestName' | 'moved'> {
  readonly id: string
  /** Recorded flows that are stored with the alert. */
  readonly samples: readonly RecordedFlow[]
}

const ring = (maxLength: number) => Type.String({ maxLength, pattern: '^[A-Za-z0-9+/]*={0,2}$' })
/** Position up to which the other host has sent its history. */
const position = Type.Object({ revision: count, atMs: time })

const messageSchema = Type.Object({
  position,
  operations: Type.Array(Type.Unknown(), { maxItems: mostMoved.operation }),
  alerts: Type.Array(Type.Unknown(), { maxItems: mostMoved.alert }),
  series: Type.Object({
    day: ring(maxTextLength('day')),
    month: ring(maxTextLength('month')),
    year: ring(maxTextLength('year')),
  }),
})

export interface HistoryMessage extends Omit<Static<typeof messageSchema>, 'operations' | 'alerts'> {
  readonly operations: readonly MovedOperation[]
  readonly alerts: readonly SentAlert[]
}

/**
 * Reads a message of another host. Drops invalid items, items with times in the future, and unknown fields.
 * @throws {BerthError} `bad_stream`
 */
export function parseHistory(raw: string, nowMs: number): HistoryMessage {
  const { operations, alerts, ...message } = parseMessage(messageSchema, parseJson(raw))
  const latestMs = nowMs + clockMs
  return {
    ...message,
    operations: validOf<MovedOperation>(operation, operations).filter(
      ({ createdAtMs, startedAtMs, finishedAtMs }) => Math.max(createdAtMs, startedAtMs, finishedAtMs) <= latestMs,
    ),
    alerts: validOf<SentAlert>(alert, alerts).filter((one) => isPast(one, latestMs)),
  }
}

/** A hostile host could otherwise send an alert that never ends, and in which all later findings would be counted. */
function isPast({ samples, suspicion, ...alert }: SentAlert, latestMs: number): boolean {
  const times = [alert.firstAtMs, alert.lastAtMs, alert.criticalAtMs, suspicion?.sinceMs, suspicion?.lastMs]
  const latest = Math.max(...times.map((one = 0) => one), ...samples.map(({ atMs }) => atMs))
  return latest <= latestMs && alert.stopAtMs <= latestMs + longestGraceSeconds * 1000
}

/** Maximum length in bytes of a message. Other hosts accept longer messages, too (see receive-transfer.ts). */
const maxMessageBytes = 7 * 1024 ** 2

/** Formats a message. If it is too long, leaves out the oldest half of operations and alerts, and tries again. */
export function formatHistory(message: HistoryMessage): string {
  const text = JSON.stringify(message)
  const { operations, alerts } = message
  if (Buffer.byteLength(text) <= maxMessageBytes || operations.length + alerts.length === 0) return text
  const half = <Item>(items: readonly Item[]): readonly Item[] => items.slice(0, Math.floor(items.length / 2))
  return formatHistory({ ...message, operations: half(operations), alerts: half(alerts) }) // the newest ones come first
}

/** Returns undefined, which no schema accepts, if the text is not valid JSON. */
function parseJson(raw: string): unknown {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}

function validOf<Item>(schema: TSchema, items: readonly unknown[]): Item[] {
  return items.filter((item) => Check(schema, item)).map((item) => Clean(schema, item) as Item)
}
