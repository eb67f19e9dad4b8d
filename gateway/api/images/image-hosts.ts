import { Type } from 'typebox'
import { BerthError, notFound } from '../../../shared/errors.js'
import { templateIdPattern } from '../../../shared/guest-rules.js'
import type { Fleet, FleetView, TemplateView } from '../../fleet/contract.js'
import { trimmed } from '../../http/normalize.js'
import type { RequestContext } from '../../http/route.js'
import { FailedSchema, orderEach, type PartsDone } from '../guests/batch-parts.js'
import { getNamedHost } from '../host-choice.js'

/* Each host has its own images. A request applies to the named host, or to all hosts that have the image. */

const HostIdSchema = Type.Optional(
  Type.String({
    ...trimmed,
    maxLength: 64,
    description: 'Id of the host on which the action takes place. Default: all hosts that have the image.',
  }),
)
export const hostField = { host_id: HostIdSchema }
export const IdSchema = Type.String({
  ...trimmed,
  pattern: templateIdPattern,
  description: 'Id of an image, see `GET /images`: lower-case letters, digits, "." and "-".',
})

/** Fields of an answer in addition to its message. */
export const doneFields = {
  hosts: Type.Array(Type.String(), { description: 'Ids of the hosts on which the action succeeded.' }),
  failed: Type.Array(FailedSchema, { description: 'Hosts on which the action failed, with the error of each.' }),
}

export interface DoneOnHosts<Result> {
  readonly results: readonly Result[]
  readonly more: { readonly hosts: string[]; readonly failed: PartsDone<unknown>['failed'] }
  readonly unsettled: boolean
}

/** Finds the template on each selected host. @throws {BerthError} `not_found`, `invalid_field` for an unknown host */
export function holdersOf(view: FleetView, templateId: string, hostId: string | undefined): TemplateView[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  const found = [...view.templates()].filter(
    (held) => held.template.id === templateId && (hostId ?? held.hostId) === held.hostId,
  )
  if (found.length === 0) throw notFound('image')
  return found
}

/** Sends a request to each host and waits until the fleet view shows the results. @throws if all requests fail */
export async function onHosts<Result extends { readonly revision: number }>(
  fleet: Fleet,
  context: Pick<RequestContext<unknown, unknown, unknown>, 'caller' | 'log'>,
  hostIds: readonly string[],
  ask: (hostId: string) => Promise<Result>,
): Promise<DoneOnHosts<Result>> {
  const list = hostIds.map((id) => ({ name: id, one: id }))
  const { done, failed, unsettled } = await orderEach(context, list, async (hostId) => {
    const result = await ask(hostId)
    await fleet.reached(hostId, result.revision)
    return { hostId, result }
  })
  const hosts = done.map(({ hostId }) => hostId)
  return { results: done.map(({ result }) => result), more: { hosts, failed }, unsettled }
}

/** Reads the id from the body or query, because a DELETE may have no body. @throws {BerthError} `missing_field` */
export function givenId(
  field: 'template_id' | 'id',
  { query, body }: { readonly query: Ids; readonly body?: Ids | undefined },
): { readonly id: string; readonly hostId: string | undefined } {
  const id = body?.[field] ?? query[field]
  if (id === undefined) throw new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
  return { id, hostId: body?.host_id ?? query.host_id }
}

interface Ids {
  readonly template_id?: string
  readonly id?: string
  readonly host_id?: string
}
