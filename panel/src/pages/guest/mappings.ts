import { api, ask, send } from '../../api/client.ts'
import { ApiFailure } from '../../api/failure.ts'
import type { Guest, PortMapping } from '../../api/types.ts'

/**
 * Removes a port mapping. The API identifies mappings by position. This function therefore reads the position first,
 * and the gateway refuses the removal if the list changes after that.
 * @throws {ApiFailure} `not_found` if the mapping no longer exists; `precondition_failed` if the list has changed
 */
export async function removeMapping({ id }: Pick<Guest, 'id'>, mapping: PortMapping): Promise<void> {
  const path = { id: String(id) }
  let etag = ''
  const { port_mappings: mappings } = await ask(async () => {
    const answer = await api.GET('/containers/{id}', { params: { path }, cache: 'no-store' })
    etag = answer.response.headers.get('etag') ?? ''
    return answer
  })
  const index = mappings.findIndex((one) => isSame(one, mapping))
  if (index < 0) throw new ApiFailure('not_found', 'the port mapping is gone')
  const params = { path: { ...path, index } }
  const headers = etag === '' ? {} : { 'If-Match': etag }
  await send(() => api.DELETE('/containers/{id}/port-mappings/{index}', { params, headers }))
}

function isSame(a: PortMapping, b: PortMapping): boolean {
  return (['protocol', 'host_ip', 'host_port', 'container_port'] as const).every((field) => a[field] === b[field])
}
