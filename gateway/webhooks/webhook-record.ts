import { eventTypes, kindOf, type EventKind, type EventType } from '../events/event.js'
import { invalidField } from '../../shared/errors.js'

export interface WebhookRecord {
  readonly id: string
  readonly name: string
  readonly url: string
  /** Types of events, `kind.*` for all types of a kind, or `*` for all types. */
  readonly events: readonly string[]
  readonly disabled: boolean
  /** Encrypted secret. It can be decrypted only for this webhook. */
  readonly sealed: string
  readonly createdAtMs: number
  readonly changedAtMs: number
}

export interface WebhookFields {
  readonly name?: string
  readonly url?: string
  readonly events?: readonly string[]
  readonly disabled?: boolean
}

/** Frequent types of events. They are only sent to streams of events, not to webhooks. */
const streamed: readonly EventType[] = ['usage.host', 'task.progress', 'guest.host']
export const webhookTypes: readonly EventType[] = eventTypes.filter((type) => !streamed.includes(type))
export const everyEvent = '*'

/** Checks types of events. @throws {BerthError} `invalid_field` */
export function checkEvents(events: readonly string[]): readonly string[] {
  const unknown = events.find((word) => typesOf([word]).length === 0)
  if (unknown === undefined && events.length > 0) return [...new Set(events)]
  const known = `*, kind.* or one of ${webhookTypes.join(', ')}`
  throw invalidField('events', `events: must be ${known}`)
}

/** Returns all types of events that match these patterns, for example `task.*`. */
export function typesOf(events: readonly string[]): EventType[] {
  return webhookTypes.filter((type) =>
    events.some((word) => word === everyEvent || word === type || word === `${kindOf(type)}.*`),
  )
}

/** Kinds of the given events. Callers that create or change a webhook need permission to read all these kinds. */
export function kindsOf(events: readonly string[]): EventKind[] {
  return [...new Set(typesOf(events).map(kindOf))]
}

export function wants({ events, disabled }: WebhookRecord, type: EventType): boolean {
  return !disabled && typesOf(events).includes(type)
}
