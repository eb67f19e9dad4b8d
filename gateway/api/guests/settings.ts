import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Fleet, SettingsCalls } from '../../fleet/contract.js'
import { ifRevisionOf } from '../../http/if-match.js'
import type { RequestContext, Subjects } from '../../http/route.js'

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

/** The fields of a request that were sent, for an audit entry. */
export function describeFields(body: object): string {
  const sent = Object.entries(body).filter(([, value]) => value !== undefined)
  return sent.map(([field, value]) => `${field} ${String(value)}`).join(', ') || 'nothing'
}
