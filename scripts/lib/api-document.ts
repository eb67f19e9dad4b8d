import { createApi, type ApiOptions } from '../../gateway/api/create-api.js'

/** Returns the OpenAPI document that the gateway publishes. */
export function apiDocument(): ReturnType<typeof createApi>['document'] {
  const built: readonly unknown[] = ['panelDirectory', 'cliFile']
  const parts = new Proxy({}, { get: (_, name) => (built.includes(name) ? undefined : nobody()) })
  return createApi(parts as ApiOptions).document
}

/**
 * Returns a stub for every dependency of the routes. The routes use their dependencies only in requests, and this
 * module sends no requests.
 */
function nobody(): unknown {
  const one: unknown = new Proxy(() => one, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : one),
  })
  return one
}
