import { Type, type TObject } from 'typebox'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { ChangeSettingRequest, Firewall } from '../../../proto/gen/berth/agent/v1/network.js'
import { notFound } from '../../../shared/errors.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { checkIfMatch, ifRevisionOf } from '../../http/if-match.js'
import { fieldName } from '../../http/refusal.js'
import type { Answer, RequestContext, Subjects } from '../../http/route.js'

type Context = Pick<RequestContext<unknown, unknown, unknown>, 'headers' | 'audit' | 'operationId'> & Subjects['guest']

/**
 * Finds the container of a route with `bound: 'refused'`, and names it in the audit entry.
 * @throws {BerthError} `not_found`
 */
export function findAudited(
  { view }: Fleet,
  { params, audit }: Pick<RequestContext<{ id: string }, unknown, unknown>, 'params' | 'audit'>,
): GuestView {
  const found = view.findGuest(params.id)
  if (!found) throw notFound('container')
  audit({ target: found.guest.name, containerUuid: found.guest.uuid })
  return found
}

export interface SettingOrder {
  readonly change: NonNullable<ChangeSettingRequest['change']>
  /** Text for the audit entry. */
  readonly detail: string
  /** Revision that the guest must have if there is no If-Match header. 0: any revision. */
  readonly ifRevision?: number
  /** Maximum number of ports in all mappings, including a new one. `undefined`: only the limit of the host applies. */
  readonly portLimit?: number | undefined
}

export interface ChangedSetting {
  /** The guest after the change. */
  readonly guest: Guest
  readonly firewall: Firewall | undefined
}

/**
 * Changes a setting of the request's container. Waits until the fleet view shows the change.
 * @throws {BerthError} `precondition_failed`, `host_offline`, and errors of the agent
 */
export async function changeSetting(
  fleet: Fleet,
  context: Context,
  { change, detail, ifRevision = 0, portLimit }: SettingOrder,
): Promise<ChangedSetting> {
  const { hostId, guest } = context.guest
  const { operationId } = context
  context.audit({ detail: `id ${guest.id}, ${detail}` })
  const answer = await fleet.agent(hostId).settings.changeSetting({
    uuid: guest.uuid,
    operationId,
    change,
    portLimit,
    ifRevision: ifRevisionOf(context.headers) || ifRevision,
  })
  const changed = answer.guest ?? guest
  await fleet.reached(hostId, changed.revision)
  return { guest: changed, firewall: answer.firewall }
}

/** Data in the answer to an update if fields were ignored. */
export const UpdatedSchema = Type.Optional(
  Type.Object(
    {
      ignored: Type.Array(Type.String(), {
        description:
          'Fields of the request that were ignored because they are not known or not allowed in this request.',
      }),
    },
    { title: 'Updated' },
  ),
)
type SettingsAnswer = Answer<{ ignored: string[] }>

/** Maximum number of ignored fields that an answer lists. */
const maxIgnored = 50

/** @param schema schema of the request's body */
export function updatedAnswer(message: string, body: object, schema: TObject): SettingsAnswer {
  const unknown = Object.keys(body).filter((name) => !Object.hasOwn(schema.properties, name))
  if (unknown.length === 0) return { message }
  return { message, data: { ignored: unknown.slice(0, maxIgnored).map(fieldName) } }
}

export const nothingToChange = 'nothing to change'

/**
 * Handles an update that contains no known field: checks If-Match, but sends nothing to the agent.
 * @throws {BerthError} `precondition_failed`
 */
export async function leaveSetting(fleet: Fleet, context: Context): Promise<void> {
  const { guest } = context.guest
  context.audit({ detail: `id ${guest.id}, ${nothingToChange}` })
  await checkIfMatch(fleet, guest.uuid, context)
}

/** Describes the fields that a request contains, for an audit entry. */
export function describeFields(body: object): string {
  const sent = Object.entries(body).filter(([, value]) => value !== undefined)
  return sent.map(([field, value]) => `${field} ${String(value)}`).join(', ') || 'nothing'
}
