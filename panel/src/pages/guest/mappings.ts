import { api, ask, send } from '../../api/client.ts'
import { ApiFailure } from '../../api/failure.ts'
import type { Guest, PortMapping } from '../../api/types.ts'
import type { MappingChange } from './mapping-form.ts'

/**
 * Removes a port mapping.
 * @throws {ApiFailure} `not_found` if the mapping no longer exists; `precondition_failed` if the list has changed
 */
export async function removeMapping(guest: Pick<Guest, 'id'>, mapping: PortMapping): Promise<void> {
  const { params, headers } = await locate(guest, mapping)
  await send(() => api.DELETE('/containers/{id}/port-mappings/{index}', { params, headers }))
}

/**
 * Changes the given fields of a port mapping.
 * @throws {ApiFailure} `not_found` if the mapping no longer exists; `precondition_failed` if the list has changed
 */
export async function changeMapping(
  guest: Pick<Guest, 'id'>,
  mapping: PortMapping,
  body: MappingChange,
): Promise<void> {
  const { params, headers } = await locate(guest, mapping)
  await send(() => api.PUT('/containers/{id}/port-mappings/{index}', { params, headers, body }))
}

/**
 * Finds the position of a port mapping, by which the API identifies it. The returned header If-Match makes the gateway
 * refuse the change if the list has changed in the meantime.
 */
async function locate({ id }: Pick<Guest, 'id'>, mapping: PortMapping) {
  const path = { id: String(id) }
  let etag = ''
  const { port_mappings: mappings } = await ask(async () => {
    const answer = await api.GET('/containers/{id}', { params: { path }, cache: 'no-store' })
    etag = answer.response.headers.get('etag') ?? ''
    return answer
  })
  const index = mappings.findIndex((one) => isSame(one, mapping))
  if (index < 0) throw new ApiFailure('not_found', 'the port mapping no longer exists')
  return { params: { path: { ...path, index } }, headers: etag === '' ? {} : { 'If-Match': etag } }
}

function isSame(a: PortMapping, b: PortMapping): boolean {
  return (['protocol', 'host_ip', 'host_port', 'container_port'] as const).every((field) => a[field] === b[field])
}
