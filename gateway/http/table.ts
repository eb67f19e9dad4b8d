import type { Bound, Route, SubUserAccess } from './route.js'

const scopePattern = /^(\*|any|session|public|[a-z0-9]+:[a-z]+)$/
const pathPattern = /^(\/([a-z0-9.-]+|\{[a-z_]+\}))+$/

const namePattern = /^[a-z]+([A-Z][a-z0-9]*)*$/

/**
 * Checks that each route defines its scope, the access of callers restricted to some guests, and its audit action.
 * @throws {Error} with the name of a route that breaks a rule
 */
export function checkRoutes(routes: readonly Route[]): void {
  const seen = new Set<string>()
  const names = new Set<string>()
  for (const route of routes) {
    const name = `${route.method} ${route.path}`
    const refuse = (why: string): never => {
      throw new Error(`route ${name}: ${why}`)
    }
    if (!pathPattern.test(route.path)) refuse('has a malformed path')
    if (!scopePattern.test(String(route.scope))) refuse('has no scope')
    refuseUnbounded(route, refuse)
    refuseUndecided(route, refuse)
    if (route.method !== 'GET' && (route.audit ?? '') === '') refuse('has no audit action')
    refuseNameless(route, names, refuse)
    const key = `${route.method} ${route.path.replaceAll(/\{\w+\}/g, '{}')}`
    if (seen.has(key)) refuse('the route exists twice')
    seen.add(key)
  }
}

/** Checks name and example of a route, because generated clients use them. */
function refuseNameless({ name, body, example }: Route, names: Set<string>, refuse: (why: string) => never): void {
  if (!namePattern.test(name ?? '')) refuse('the route has no name')
  if (names.has(name)) refuse(`the name ${name} is used by another route`)
  if (body && example === undefined) refuse('the route has no example of its body')
  names.add(name)
}

const boundWords: readonly Bound[] = ['guest', 'task', 'own', 'same', 'refused']

/** Checks that `bound` is `guest` or `task` exactly if the path contains one, or that it is `refused`. */
function refuseUnbounded({ bound, path }: Route, refuse: (why: string) => never): void {
  if (!boundWords.includes(bound)) refuse('does not define what callers that are bound to containers may do')
  const named = path.includes('/containers/{id}') ? 'guest' : path.includes('{task_id}') ? 'task' : undefined
  if (named !== undefined && bound !== named && bound !== 'refused')
    refuse(`its path has a ${named}, so bound must be "${named}" or "refused"`)
  if ((bound === 'guest' || bound === 'task') && bound !== named)
    refuse(`its path has no ${bound}, so bound must not be "${bound}"`)
}

const subUserWords: readonly SubUserAccess[] = ['allowed', 'inner', 'refused']

/** Checks that a route defines the access of sub-users, or is closed to all callers restricted to containers. */
function refuseUndecided({ bound, subUser }: Route, refuse: (why: string) => never): void {
  if (bound === 'refused' && (subUser ?? 'refused') !== 'refused')
    refuse('allows sub-users, but refuses all callers that are bound to containers: sub-users are such callers')
  if (bound !== 'refused' && !subUserWords.includes(subUser!)) refuse('does not define whether sub-users may call it')
}

/** Sorts routes so that fixed segments precede parameters: `/containers/list` precedes `/containers/{id}`. */
export function orderRoutes(routes: readonly Route[]): Route[] {
  const rank = (route: Route): string => route.path.replaceAll(/\{\w+\}/g, '~')
  return routes.toSorted((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0))
}
