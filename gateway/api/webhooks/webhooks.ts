import { Type, type Static } from 'typebox'
import { BerthError } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import type { Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import { scopeOfKind } from '../../events/audience.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'
import type { WebhookFields } from '../../webhooks/webhook-record.js'
import { checkEvents, everyEvent, kindsOf, type WebhookRecord } from '../../webhooks/webhook-record.js'
import type { Webhooks } from '../../webhooks/webhooks.js'
import {
  ChangeWebhookSchema,
  CreateWebhookSchema,
  DeliverySchema,
  deliveryRow,
  MadeWebhookSchema,
  OrderedSchema,
  WebhookSchema,
  webhookRow,
} from './webhook-schemas.js'

interface Parts {
  readonly webhooks: Webhooks
  readonly time: TimeFormat
}

const WebhookPathSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })
const DeliveryPathSchema = Type.Object({
  ...WebhookPathSchema.properties,
  delivery_id: Type.String({ maxLength: 64 }),
})
const ofWebhooks = { scope: 'webhook:manage', bound: 'refused', tag: 'Webhooks' } as const
const sortable = ['name', 'created_at'] as const
const sortableDeliveries = ['created_at', 'type', 'status'] as const

export function webhookRoutes(parts: Parts): Route[] {
  return [...readRoutes(parts), ...changeRoutes(parts), ...deliveryRoutes(parts)]
}

function readRoutes({ webhooks: { records }, time }: Parts): Route[] {
  return [
    route({
      ...ofWebhooks,
      method: 'GET',
      path: '/webhooks',
      name: 'listWebhooks',
      summary: 'Lists the webhooks by name, without secrets',
      sortable,
      query: listQuery({ name: Type.String({ maxLength: 63 }) }),
      data: Type.Array(WebhookSchema),
      handle: ({ query }) => {
        const rows = records.list().map((record) => webhookRow(record, time))
        return listAnswer(rows, query, { sortable, filters: ['name'] })
      },
    }),
    route({
      ...ofWebhooks,
      method: 'GET',
      path: '/webhooks/{id}',
      name: 'getWebhook',
      summary: 'Returns a webhook, without its secret',
      params: WebhookPathSchema,
      data: WebhookSchema,
      handle: ({ params }) => ({ data: webhookRow(records.get(params.id), time) }),
    }),
  ]
}

function changeRoutes({ webhooks, time }: Parts): Route[] {
  const { records } = webhooks
  return [
    route({
      ...ofWebhooks,
      method: 'POST',
      path: '/webhooks',
      name: 'createWebhook',
      audit: 'webhook.create',
      summary:
        'Adds a webhook: a URL that receives events. The answer contains the secret with which the events are signed',
      body: CreateWebhookSchema,
      example: {
        name: 'billing',
        url: 'https://billing.example.com/berth',
        events: ['guest.*', 'task.failed'],
      },
      data: MadeWebhookSchema,
      statuses: [201],
      errors: ['name_conflict', 'resource_exhausted'],
      handle: async (context) => {
        const { body, caller, operationId } = context
        context.audit({ target: body.name, detail: detailOf(body) })
        refuseUnreadable(caller, checkEvents(body.events ?? [everyEvent]))
        const record = await records.create(operationId, {
          ...fieldsIn(body),
          name: body.name,
          url: body.url,
        })
        return { status: 201, message: 'webhook added', data: made(record, records.secretOf(record)) }
      },
    }),
    route({
      ...ofWebhooks,
      method: 'PATCH',
      path: '/webhooks/{id}',
      name: 'updateWebhook',
      audit: 'webhook.update',
      summary:
        'Changes a webhook. Omitted fields stay unchanged. If the URL changes, waiting events are sent to the new URL',
      params: WebhookPathSchema,
      body: ChangeWebhookSchema,
      example: { disabled: true },
      data: MadeWebhookSchema,
      errors: ['name_conflict'],
      handle: async (context) => {
        const { body, params, caller } = context
        const before = records.get(params.id)
        context.audit({ target: before.name, detail: detailOf(body) })
        // The caller must be able to read the previous events, too, because pending deliveries will go to the new URL.
        refuseUnreadable(caller, [...before.events, ...checkEvents(body.events ?? before.events)])
        const rotates = body.rotate_secret === true
        const record = await records.update(params.id, fieldsIn(body), rotates)
        const data = rotates ? made(record, records.secretOf(record)) : webhookRow(record, time)
        return { message: 'webhook changed', data }
      },
    }),
    route({
      ...ofWebhooks,
      method: 'DELETE',
      path: '/webhooks/{id}',
      name: 'deleteWebhook',
      audit: 'webhook.delete',
      summary: 'Deletes a webhook and its undelivered events',
      params: WebhookPathSchema,
      handle: async (context) => {
        const { id, name, url } = records.get(context.params.id)
        context.audit({ target: name, detail: originOf(url) })
        await webhooks.remove(id)
        return { message: 'webhook removed' }
      },
    }),
  ]

  function made(record: WebhookRecord, secret: string): Static<typeof MadeWebhookSchema> {
    return { ...webhookRow(record, time), secret }
  }
}

function deliveryRoutes({ webhooks, time }: Parts): Route[] {
  return [
    route({
      ...ofWebhooks,
      method: 'GET',
      path: '/webhooks/{id}/deliveries',
      name: 'listWebhookDeliveries',
      summary: 'Lists the waiting deliveries of a webhook, and its newest 200 deliveries that succeeded or failed',
      params: WebhookPathSchema,
      sortable: sortableDeliveries,
      query: listQuery({ status: DeliverySchema.properties.status, type: Type.String({ maxLength: 64 }) }),
      data: Type.Array(DeliverySchema),
      handle: async ({ params, query }) => {
        const { waiting, ended } = await webhooks.deliveries(params.id)
        const rows = [...waiting, ...ended].map((delivery) => deliveryRow(delivery, time))
        return listAnswer(rows, query, { sortable: sortableDeliveries, filters: ['status', 'type'] })
      },
    }),
    route({
      ...ofWebhooks,
      method: 'POST',
      path: '/webhooks/{id}/test',
      name: 'testWebhook',
      audit: 'webhook.test',
      summary: 'Sends a test event to a webhook',
      params: WebhookPathSchema,
      data: OrderedSchema,
      statuses: [202],
      handle: async (context) => {
        context.audit({ target: webhooks.records.get(context.params.id).name })
        return { status: 202, data: { delivery_id: await webhooks.test(context.params.id) } }
      },
    }),
    route({
      ...ofWebhooks,
      method: 'POST',
      path: '/webhooks/{id}/deliveries/{delivery_id}/redeliver',
      name: 'redeliverWebhook',
      audit: 'webhook.redeliver',
      summary: 'Repeats a finished delivery with the same content',
      params: DeliveryPathSchema,
      data: OrderedSchema,
      statuses: [202],
      handle: async (context) => {
        const { id, delivery_id } = context.params
        context.audit({ target: webhooks.records.get(id).name, detail: delivery_id })
        const { type } = await webhooks.ended(id, delivery_id)
        refuseUnreadable(context.caller, [type])
        return { status: 202, data: { delivery_id: await webhooks.redeliver(id, delivery_id) } }
      },
    }),
  ]
}

/** Checks that the caller may read the events. @throws {BerthError} `insufficient_scope` */
function refuseUnreadable(caller: Principal, events: readonly string[]): void {
  const scopes = kindsOf(events).map(scopeOfKind)
  const missing = scopes.find((scope) => !coversScope(caller.scopes, scope))
  if (missing === undefined) return
  throw new BerthError(
    'forbidden',
    'insufficient_scope',
    `events: to receive these events, the caller needs the scope ${missing}`,
  )
}

/** Selects the documented fields, because bodies can contain other fields. */
function fieldsIn({ name, url, events, disabled }: Static<typeof ChangeWebhookSchema>): WebhookFields {
  return {
    ...(name !== undefined && { name }),
    ...(url !== undefined && { url }),
    ...(events !== undefined && { events }),
    ...(disabled !== undefined && { disabled }),
  }
}

function detailOf(body: Static<typeof ChangeWebhookSchema>): string {
  const { url, events, disabled, rotate_secret: rotate } = body
  const said = [url && originOf(url), events?.join(' '), disabled === undefined ? undefined : `disabled ${disabled}`]
  return [...said, rotate ? 'new secret' : undefined].filter((part) => part !== undefined).join(', ')
}

/** Shortens a URL to its origin, because path and query are often secret. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'no URL'
}
