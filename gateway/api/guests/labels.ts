import { Type, type Static } from 'typebox'
import type { LabelsChange } from '../../../proto/gen/berth/agent/v1/network.js'
import { BerthError, conflict } from '../../../shared/errors.js'
import { checkGuestName, guestNamePattern } from '../../../shared/guest-rules.js'
import { checkNote, notePattern, parseTags } from '../../../shared/label-rules.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { requireFeature } from '../../fleet/require-feature.js'
import { trimmed } from '../../http/normalize.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'
import { tagsSchema } from './label-row.js'
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
    name: Type.Optional(
      Type.String({
        ...trimmed,
        pattern: guestNamePattern,
        description:
          'New name, unique in the fleet. The container’s own host name follows at its next start. URLs with the old name stop working.',
      }),
    ),
    tags: Type.Optional(tagsSchema('Replaces all tags of the container. Sub-users see the tags.')),
    note: Type.Optional(
      Type.String({
        pattern: notePattern,
        description: 'Plain text, which sub-users do not see. Empty: removes the note.',
      }),
    ),
    delete_protected: Type.Optional(
      Type.Boolean({
        description:
          '`true`: no caller can delete or reinstall the container. Such requests get 409 with the code `delete_protected`.',
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
      'Changes the name, the tags, the note, the protection and the placement rules of a container. Omitted fields stay unchanged',
    params: ContainerPathSchema,
    body: BodySchema,
    example: { tags: ['customer-42', 'web'], note: 'Paid until May.', delete_protected: true },
    data: UpdatedSchema,
    conditional: true,
    errors: [
      'agent_outdated',
      'name_conflict',
      'guest_moving',
      'invalid_state',
      'precondition_failed',
      'host_offline',
      'agent_timeout',
    ],
    handle: (context) => updateLabels(fleet, context),
  })
}

async function updateLabels(fleet: Fleet, context: RequestContext<{ id: string }, unknown, Body>) {
  const guest = findAudited(fleet, context)
  const { body } = context
  const value = planLabels(body, guest)
  if (Object.values(value).every((field) => field === undefined)) {
    await leaveSetting(fleet, { ...context, guest })
    return updatedAnswer(nothingToChange, body, BodySchema)
  }
  const host = fleet.view.findHost(guest.hostId)
  if (host?.state === 'online') {
    requireFeature(host, value.placement ? 'placement' : 'labels')
    if (value.name !== undefined) requireFeature(host, 'rename')
  }
  const change = { $case: 'labels', value } as const
  const apply = () => changeSetting(fleet, { ...context, guest }, { change, detail: describeLabels(body) })
  await (value.name === undefined ? apply() : withName(fleet, { guest, name: value.name }, apply))
  return updatedAnswer('container updated', body, BodySchema)
}

/**
 * Reserves a name while a host gives it to a guest. If the host refuses the change, the name is free again. After other
 * errors, the guest possibly has the name, and a repetition of the request completes the change.
 * @throws {BerthError} `name_conflict`, `guest_moving`, and the errors of `apply`
 */
async function withName(
  fleet: Fleet,
  { guest: { guest, hostId }, name }: { readonly guest: GuestView; readonly name: string },
  apply: () => Promise<unknown>,
): Promise<void> {
  const other = fleet.view.findGuest(name)
  if (other && other.guest.uuid !== guest.uuid)
    throw conflict('name_conflict', `name: a container named ${name} already exists`)
  fleet.agent(hostId) // throws if the host is offline, before anything is reserved
  await fleet.reserveName(guest.uuid, name)
  try {
    await apply()
  } catch (error) {
    const isRefused = error instanceof BerthError && ['invalid', 'conflict', 'not_found'].includes(error.kind)
    if (isRefused) await fleet.releaseName(guest.uuid, name)
    throw error
  }
}

/** @throws {BerthError} `invalid_field` */
function planLabels(
  { name, tags, note, delete_protected: deleteProtected, placement }: Body,
  { guest }: GuestView,
): LabelsChange {
  if (name !== undefined) checkGuestName(name)
  return {
    name: name === guest.name ? undefined : name,
    tags: tags && { names: parseTags(tags) },
    note: note === undefined ? undefined : checkNote(note),
    deleteProtected,
    placement: placement && planRules(placement),
  }
}

/** Omits the note and the placement rules, because customers may read the audit log of their container. */
export function describeLabels({ name, tags, note, delete_protected: isProtected, placement }: Body): string {
  return [
    ...(name === undefined ? [] : [`name ${name}`]),
    ...(tags ? [`tags ${tags.join(' ') || 'none'}`] : []),
    ...(note === undefined ? [] : ['note changed']),
    ...(isProtected === undefined ? [] : [`delete_protected ${isProtected}`]),
    ...(placement ? ['placement changed'] : []),
  ].join(', ')
}
