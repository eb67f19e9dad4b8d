import { Type, type TObject } from 'typebox'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet, SettingsCalls } from '../../fleet/contract.js'
import { checkIfMatch, ifRevisionOf } from '../../http/if-match.js'
import { fieldName } from '../../http/refusal.js'
import type { Answer, RequestContext, Subjects } from '../../http/route.js'

/** What a settings call is about. */
export interface SettingsTarget {
  readonly uuid: string
  /** What If-Match allows; 0: any. */
  readonly ifRevision: number
}

type Context = Pick<RequestContext<unknown, unknown, unknown>, 'headers' | 'audit'> & Subjects['guest']

/**
 * Changes a setting of the request's container; resolves once the view shows it.
 * @param detail for the audit entry
 * @throws {BerthError} `precondition_failed`, `host_offline`, and the agent's own
 */
export async function changeSetting<Response extends { revision: number }>(
  fleet: Fleet,
  context: Context,
  detail: string,
  send: (settings: SettingsCalls, target: SettingsTarget) => Promise<Response>,
): Promise<{ guest: Guest; response: Response }> {
  const { hostId, guest } = context.guest
  context.audit({ detail: `id ${guest.id}, ${detail}` })
  const target = { uuid: guest.uuid, ifRevision: ifRevisionOf(context.headers) }
  const response = await send(fleet.agent(hostId).settings, target)
  await fleet.reached(hostId, response.revision)
  return { guest, response }
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
export async function leaveSetting(
  fleet: Fleet,
  context: Context & { readonly operationId: string },
): Promise<void> {
  const { guest } = context.guest
  context.audit({ detail: `id ${guest.id}, nothing` })
  await checkIfMatch(fleet, guest.uuid, context)
}

/** The fields of a request that were sent, for an audit entry. */
export function describeFields(body: object): string {
  const sent = Object.entries(body).filter(([, value]) => value !== undefined)
  return sent.map(([field, value]) => `${field} ${String(value)}`).join(', ') || 'nothing'
}
