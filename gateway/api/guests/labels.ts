import { Type, type Static } from 'typebox'
import type { LabelsChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { checkNote, maxTags, notePattern, parseTags, tagPattern } from '../../../shared/label-rules.js'
import type { Fleet } from '../../fleet/contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'
import { PlacementSchema, planRules } from './placement-row.js'
import {
  changeSetting,
  findAudited,
  leaveSetting,
  nothingToChange,
  updatedAnswer,
  UpdatedSchema,
} from './guest-settings.js'

const BodySchema = Type.Object(
  {
    tags: Type.Optional(
      Type.Array(Type.String({ pattern: tagPattern }), {
        maxItems: maxTags,
        description: 'Replaces all tags of the container. Sub-users see the tags.',
      }),
    ),
    note: Type.Optional(
      Type.String({
        pattern: notePattern,
        description: 'Plain text, which sub-users do not see. Empty: removes the note.',
      }),
    ),
    delete_protected: Type.Optional(
      Type.Boolean({
        description:
          '`true`: requests to delete or reinstall the container are answered with 409 `delete_protected`, for every caller.',
      }),
    ),
    placement: Type.Optional(PlacementSchema),
  },
  { title: 'ContainerLabels' },
)
type Body = Static<typeof BodySchema>

export function labelRoute(fleet: Fleet): Route {
  return route({
    method: 'PATCH',
    path: '/containers/{id}',
    name: 'updateContainer',
    scope: 'container:label',
    bound: 'refused',
    audit: 'container.label',
    tag: 'Containers',
    summary:
      'Changes the tags, the note, the protection and the placement rules of a container. Omitted fields stay unchanged',
    params: ContainerPathSchema,
    body: BodySchema,
    example: { tags: ['customer-42', 'web'], note: 'Paid until May.', delete_protected: true },
    data: UpdatedSchema,
    conditional: true,
    errors: ['agent_outdated', 'invalid_state', 'precondition_failed', 'host_offline', 'agent_timeout'],
    handle: (context) => updateLabels(fleet, context),
  })
}

async function updateLabels(fleet: Fleet, context: RequestContext<{ id: string }, unknown, Body>) {
  const guest = findAudited(fleet, context)
  const { body } = context
  const value = planLabels(body)
  if (Object.values(value).every((field) => field === undefined)) {
    await leaveSetting(fleet, { ...context, guest })
    return updatedAnswer(nothingToChange, body, BodySchema)
  }
  const host = fleet.view.findHost(guest.hostId)
  if (host?.state === 'online') requireFeature(host, value.placement ? 'placement' : 'labels')
  const change = { $case: 'labels', value } as const
  await changeSetting(fleet, { ...context, guest }, { change, detail: describeLabels(body) })
  return updatedAnswer('container updated', body, BodySchema)
}

/** @throws {BerthError} `invalid_field` */
function planLabels({ tags, note, delete_protected: deleteProtected, placement }: Body): LabelsChange {
  return {
    tags: tags && { names: parseTags(tags) },
    note: note === undefined ? undefined : checkNote(note),
    deleteProtected,
    placement: placement && planRules(placement),
  }
}

/** Omits the note and the placement rules, because customers may read the audit log of their container. */
export function describeLabels({ tags, note, delete_protected: isProtected, placement }: Body): string {
  return [
    ...(tags ? [`tags ${tags.join(' ') || 'none'}`] : []),
    ...(note === undefined ? [] : ['note changed']),
    ...(isProtected === undefined ? [] : [`delete_protected ${isProtected}`]),
    ...(placement ? ['placement changed'] : []),
  ].join(', ')
}
