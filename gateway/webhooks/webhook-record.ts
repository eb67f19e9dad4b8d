import { eventTypes, kindOf, type EventKind, type EventType } from '../events/event.js'
import { invalidField } from '../../shared/errors.js'

/** A webhook as stored. */
export interface WebhookRecord {
  readonly id: string
  readonly name: string
  readonly url: string
  /** Types, `kind.*` or `*`. */
  readonly events: readonly string[]
  readonly disabled: boolean
  /** The secret, encrypted for this webhook only. */
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

/** Frequent types, every few seconds or many times per task, which are only sent to streams. */
const streamed: readonly EventType[] = ['usage.host', 'task.progress', 'guest.host']
export const webhookTypes: readonly EventType[] = eventTypes.filter((type) => !streamed.includes(type))
export const everyEvent = '*'

/** @throws {BerthError} `invalid_field` */
export function checkEvents(events: readonly string[]): readonly string[] {
  const unknown = events.find((word) => typesOf([word]).length === 0)
  if (unknown === undefined && events.length > 0) return [...new Set(events)]
  const known = `*, kind.* or one of ${webhookTypes.join(', ')}`
  throw invalidField('events', `events: must be ${known}`)
}

/** The types that some words select. */
export function typesOf(events: readonly string[]): EventType[] {
  return webhookTypes.filter((type) =>
    events.some((word) => word === everyEvent || word === type || word === `${kindOf(type)}.*`),
  )
}

/** Kinds of events that the creator of a webhook, and every caller that changes it, must have permission to read. */
export function kindsOf(events: readonly string[]): EventKind[] {
  return [...new Set(typesOf(events).map(kindOf))]
}

export function wants({ events, disabled }: WebhookRecord, type: EventType): boolean {
  return !disabled && typesOf(events).includes(type)
}
