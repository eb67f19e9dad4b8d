import { Type } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import { holdingOf } from '../../access/principal.js'
import { audienceOf } from '../../events/audience.js'
import { eventIdLength } from '../../events/event-id.js'
import { eventKinds, type EventKind } from '../../events/event.js'
import type { EventHub } from '../../events/hub.js'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'

const StreamQuerySchema = Type.Object({
  kinds: Type.Optional(
    Type.String({
      ...trimmed,
      maxLength: 100,
      description: `Kinds of events, separated by commas: ${eventKinds.map((kind) => `\`${kind}\``).join(', ')}. Default: all kinds that the caller can read.`,
    }),
  ),
  last_event_id: Type.Optional(
    Type.String({
      maxLength: eventIdLength,
      description:
        'Same as the header `Last-Event-ID`, for clients that cannot send headers. The header takes precedence.',
    }),
  ),
})

export function eventRoutes(hub: EventHub): Route[] {
  return [
    route({
      method: 'GET',
      path: '/events',
      name: 'streamEvents',
      scope: 'task:read',
      bound: 'own',
      subUser: 'allowed',
      tag: 'Events',
      summary:
        'Streams changes as server-sent events. The stream only contains changes of objects that the caller can read with other requests. With the id of the last event, it resumes at any gateway',
      query: StreamQuerySchema,
      produces: 'text/event-stream',
      errors: ['events_unavailable'],
      handle: async ({ caller, query, headers, recheck }) => {
        const kinds = parseKinds(query.kinds)
        const audience = audienceOf(caller, kinds)
        const holding = holdingOf(caller)
        const sent = headers['last-event-id']
        const lastId = typeof sent === 'string' && sent !== '' ? sent : query.last_event_id
        const resume = await hub.readResume(lastId)
        hub.refuseTooMany(holding)
        return {
          stream: (response) =>
            hub.open({ response, audience, holding, resume, recheck: async () => audienceOf(await recheck(), kinds) }),
        }
      },
    }),
  ]
}

/** @throws {BerthError} `invalid_field` */
function parseKinds(text: string | undefined): ReadonlySet<EventKind> | undefined {
  if (text === undefined) return undefined
  const words = text.split(',').map((word) => word.trim().toLowerCase())
  const unknown = words.find((word) => !(eventKinds as readonly string[]).includes(word))
  if (unknown !== undefined) throw invalidField('kinds', `kinds: must contain only ${eventKinds.join(', ')}`)
  return new Set(words as EventKind[])
}
