import { createApi, type ApiOptions } from '../../gateway/api/create-api.js'

/** Returns the OpenAPI document that the gateway publishes. */
export function apiDocument(): ReturnType<typeof createApi>['document'] {
  const parts = new Proxy({}, { get: (_, name) => (name === 'panelDirectory' ? undefined : nobody()) })
  return createApi(parts as ApiOptions).document
}

/** Returns a stub for every dependency of the routes. Only requests use them, and this script handles no requests. */
function nobody(): unknown {
  const one: unknown = new Proxy(() => one, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : one),
  })
  return one
}
