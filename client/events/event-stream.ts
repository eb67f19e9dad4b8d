import { setTimeout as delay } from 'node:timers/promises'
import type { ClientRequest, OpenAnswer } from '../http/connection.js'
import { isTemporary } from '../http/errors.js'
import { EventParser, type StreamEvent } from './event-parser.js'

export interface BerthEvent {
  /** Opaque id, with which a later stream continues after this event. */
  readonly id: string
  /** `guest`, `task`, `host`, `usage`, `alert`, `maintenance`, or `ready` and `reset`, which have no type and no data. */
  readonly kind: string
  /** Type of the event, such as `task.done`. Empty: the event has no type. */
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface EventOptions {
  /** Kinds of events, such as `['guest', 'task']`. Default: all kinds that the API key is allowed to read. */
  readonly kinds?: readonly string[] | undefined
  /** Id of the last received event. The stream continues after this event. */
  readonly lastEventId?: string | undefined
  /** Connects again when the stream ends. Default: true. */
  readonly reconnect?: boolean
  /** Aborting this signal ends the stream. */
  readonly signal?: AbortSignal | undefined
}

/** Sends a request, and returns the answer before its body was received. */
type Open = (request: ClientRequest, maxSilenceMs: number) => Promise<OpenAnswer>

/** Time in ms without data after which a connection counts as lost. The gateway sends something every 15 s. */
const maxSilenceMs = 45_000
const firstPauseMs = 1000
const longestPauseMs = 30_000

/**
 * Returns the events of the gateway. After a lost connection it continues with the next event.
 * @throws if the first connection fails, or the gateway refuses a later one
 */
export async function* streamEvents(open: Open, options: EventOptions): AsyncGenerator<BerthEvent> {
  const { reconnect = true, signal } = options
  let { lastEventId } = options
  let pauseMs = firstPauseMs
  let hasBegun = false
  for (;;) {
    try {
      for await (const event of readOnce(open, { ...options, lastEventId })) {
        hasBegun = true
        pauseMs = firstPauseMs
        lastEventId = event.id || lastEventId
        if (!/^(beat|end)$/.test(event.kind)) yield event
      }
    } catch (cause) {
      if (!isEndedBy(signal) && !(hasBegun && isTemporary(cause))) throw cause
    }
    if (!reconnect) return
    if (!(await pause(pauseMs, signal))) return
    pauseMs = Math.min(longestPauseMs, pauseMs * 2)
  }
}

/** Waits. @returns false if the signal ends the wait */
function pause(ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  return delay(ms, true, signal && { signal }).catch(() => false)
}

const isEndedBy = (signal: AbortSignal | undefined): boolean => signal?.aborted === true

/** Reads a stream until it ends. */
async function* readOnce(open: Open, { kinds, lastEventId, signal }: EventOptions): AsyncGenerator<BerthEvent> {
  const query = { last_event_id: lastEventId, kinds: kinds?.join(',') }
  const answer = await open({ method: 'GET', path: '/events', query, ...(signal && { signal }) }, maxSilenceMs)
  const parser = new EventParser()
  const decoder = new TextDecoder()
  for await (const part of answer.parts)
    for (const event of parser.push(decoder.decode(part, { stream: true }))) yield parseEvent(event)
}

function parseEvent({ id, kind, data: text }: StreamEvent): BerthEvent {
  const { type = '', data = {} } = parseContent(text)
  return { id, kind, type, data }
}

function parseContent(text: string): { type?: string; data?: Record<string, unknown> } {
  try {
    return (JSON.parse(text) ?? {}) as { type?: string; data?: Record<string, unknown> }
  } catch {
    return {}
  }
}
