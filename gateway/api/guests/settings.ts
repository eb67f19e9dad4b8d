import { Type, type TObject } from 'typebox'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { ChangeSettingRequest, Firewall } from '../../../proto/gen/berth/agent/v1/network.js'
import type { Fleet } from '../../fleet/contract.js'
import { checkIfMatch, ifRevisionOf } from '../../http/if-match.js'
import { fieldName } from '../../http/refusal.js'
import type { Answer, RequestContext, Subjects } from '../../http/route.js'

type Context = Pick<RequestContext<unknown, unknown, unknown>, 'headers' | 'audit' | 'operationId'> &
  Subjects['guest']

export interface SettingChange {
  readonly change: NonNullable<ChangeSettingRequest['change']>
  /** For the audit entry. */
  readonly detail: string
  /** Only where the guest has this revision; 0: any. If-Match goes before it. */
  readonly ifRevision?: number
}

export interface ChangedSetting {
  /** As it is now. */
  readonly guest: Guest
  readonly firewall: Firewall | undefined
}

/**
 * Changes a setting of the request's container; resolves once the view shows it.
 * @throws {BerthError} `precondition_failed`, `host_offline`, and the agent's own
 */
export async function changeSetting(
  fleet: Fleet,
  context: Context,
  { change, detail, ifRevision = 0 }: SettingChange,
): Promise<ChangedSetting> {
  const { hostId, guest } = context.guest
  const { operationId } = context
  context.audit({ detail: `id ${guest.id}, ${detail}` })
  const answer = await fleet.agent(hostId).settings.changeSetting({
    ...{ uuid: guest.uuid, operationId, change },
    ifRevision: ifRevisionOf(context.headers) || ifRevision,
  })
  const changed = answer.guest ?? guest
  await fleet.reached(hostId, changed.revision)
  return { guest: changed, firewall: answer.firewall }
}

/** What an update says beside its message, where there is something to say. */
export const UpdatedSchema = Type.Optional(
  Type.Object(
    {
      ignored: Type.Array(Type.String(), {
        description: 'Fields that were sent and are not known here, or not taken.',
      }),
    },
    { title: 'Updated' },
  ),
)
type Updated = Answer<{ ignored: string[] }>

/** More names of unknown fields than these help nobody. */
const maxIgnored = 50

/** @param schema of the body */
export function updatedAnswer(message: string, body: object, schema: TObject): Updated {
  const unknown = Object.keys(body).filter((name) => !Object.hasOwn(schema.properties, name))
  if (unknown.length === 0) return { message }
  return { message, data: { ignored: unknown.slice(0, maxIgnored).map(fieldName) } }
}

export const nothingToChange = 'nothing to change'

/**
 * An update without a field that is known: refused as one with some would be, but nothing is sent.
 * @throws {BerthError} `precondition_failed`
 */
export async function leaveSetting(fleet: Fleet, context: Context): Promise<void> {
  const { guest } = context.guest
  context.audit({ detail: `id ${guest.id}, nothing` })
  await checkIfMatch(fleet, guest.uuid, context)
}

/** The fields of a request that were sent, for an audit entry. */
export function describeFields(body: object): string {
  const sent = Object.entries(body).filter(([, value]) => value !== undefined)
  return sent.map(([field, value]) => `${field} ${String(value)}`).join(', ') || 'nothing'
}
