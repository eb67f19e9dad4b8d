import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { trimmed } from '../../http/normalize.js'
import { printableNamePattern } from '../../http/pattern-rules.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import type { DeliveryAttempt, LoggedDelivery } from '../../webhooks/delivery.js'
import type { QueuedDelivery } from '../../webhooks/delivery-queue.js'
import { webhookTypes, type WebhookRecord } from '../../webhooks/webhook-record.js'

const fields = {
  name: Type.String({
    ...trimmed,
    minLength: 1,
    maxLength: 63,
    pattern: printableNamePattern,
    description: 'Unique name of the webhook. Upper and lower case are not distinguished.',
  }),
  url: Type.String({
    ...trimmed,
    maxLength: 2000,
    description:
      'URL that receives the events: https, with a public address, unless the configuration of the gateway allows more. All callers that can read webhooks see the URL.',
  }),
  events: Type.Array(Type.String({ ...trimmed, maxLength: 64 }), {
    maxItems: 50,
    description: `Types of events that are sent: \`*\` (all), \`guest.*\`, \`task.*\`, \`host.*\`, \`alert.*\` or any of ${webhookTypes.join(', ')}. Default: \`*\`.`,
  }),
  disabled: Type.Boolean({
    description:
      '`true`: the webhook is disabled. New events are not queued, and queued events wait until it is enabled again.',
  }),
}

export const CreateWebhookSchema = Type.Object(
  {
    name: fields.name,
    url: fields.url,
    events: Type.Optional(fields.events),
    disabled: Type.Optional(fields.disabled),
  },
  { title: 'WebhookCreate' },
)

export const ChangeWebhookSchema = Type.Object(
  {
    name: Type.Optional(fields.name),
    url: Type.Optional(fields.url),
    events: Type.Optional(fields.events),
    disabled: Type.Optional(fields.disabled),
    rotate_secret: Type.Optional(
      Type.Boolean({ description: '`true`: generate a new secret for signing and return it in the answer.' }),
    ),
  },
  { title: 'WebhookChange' },
)

export const WebhookSchema = Type.Object(
  { id: Type.String(), ...fields, created_at: TimeSchema, changed_at: TimeSchema },
  { title: 'Webhook' },
)

/** A webhook with its secret, if the secret is new. */
export const MadeWebhookSchema = Type.Object(
  {
    ...WebhookSchema.properties,
    secret: Type.Optional(
      Type.String({
        description: 'Secret that signs the messages, see docs/events.md. It is returned only in this answer.',
      }),
    ),
  },
  { title: 'WebhookWithSecret' },
)

const count = Type.Integer({ minimum: 0 })

export const DeliverySchema = Type.Object(
  {
    id: Type.String(),
    event_id: Type.String({
      description:
        'Id of the event, which is sent in the header `webhook-id`. All attempts of a delivery send the same id.',
    }),
    type: Type.String(),
    container_uuid: Type.String({
      description: 'UUID of the container that the event concerns. Empty: it does not concern a container.',
    }),
    status: oneOf(
      ['waiting', 'retrying', 'delivered', 'failed'],
      '`waiting`: no attempt was made yet. `retrying`: an attempt failed and another one follows. `failed`: no attempt succeeded within a day, and no further attempt follows.',
    ),
    attempts: count,
    created_at: TimeSchema,
    last_attempt_at: timeSchema('the message was last sent', 'it was not sent yet'),
    next_attempt_at: timeSchema('the message will be sent next', 'it will not be sent again'),
    response_status: Type.Integer({
      description: 'HTTP status of the answer to the last attempt. 0: there was no answer.',
    }),
    duration_ms: count,
    error: Type.String({
      description: 'Error of the last attempt. Empty: the attempt succeeded, or none was made yet.',
    }),
  },
  { title: 'WebhookDelivery' },
)
export type DeliveryRow = Static<typeof DeliverySchema>

export const OrderedSchema = Type.Object({ delivery_id: Type.String() }, { title: 'WebhookDeliveryOrdered' })

export function webhookRow(record: WebhookRecord, time: TimeFormat): Static<typeof WebhookSchema> {
  const { id, name, url, events, disabled } = record
  return {
    id,
    name,
    url,
    events: [...events],
    disabled,
    created_at: time.format(record.createdAtMs),
    changed_at: time.format(record.changedAtMs),
  }
}

export function deliveryRow(delivery: QueuedDelivery | LoggedDelivery, time: TimeFormat): DeliveryRow {
  const { id, eventId, type, guestUuid, attempts, last } = delivery
  const outcome = 'outcome' in delivery ? delivery.outcome : undefined
  return {
    id,
    event_id: eventId,
    type,
    container_uuid: guestUuid,
    status: outcome ?? (attempts > 0 ? 'retrying' : 'waiting'),
    attempts,
    created_at: time.format(delivery.createdAtMs),
    last_attempt_at: time.format(last?.atMs ?? 0),
    next_attempt_at: time.format(outcome ? 0 : delivery.nextAtMs),
    ...lastRow(last),
  }
}

function lastRow(
  { status, durationMs, error }: Omit<DeliveryAttempt, 'atMs'> = { status: 0, durationMs: 0, error: '' },
) {
  return { response_status: status, duration_ms: durationMs, error }
}
