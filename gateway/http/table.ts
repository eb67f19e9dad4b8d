import type { Route } from './route.js'

const scopePattern = /^(any|[a-z0-9]+:[a-z]+)$/
const pathPattern = /^(\/([a-z0-9.-]+|\{[a-z_]+\}))+$/

const namePattern = /^[a-z]+([A-Z][a-z0-9]*)*$/

/**
 * The rules of the table. @throws {Error} naming the route: without a scope nobody would be kept out, without
 * an audit action a change would leave no trace
 */
export function checkRoutes(routes: readonly Route[]): void {
  const seen = new Set<string>()
  const names = new Set<string>()
  for (const route of routes) {
    const name = `${route.method} ${route.path}`
    const refuse = (why: string): never => {
      throw new Error(`route ${name}: ${why}`)
    }
    if (!pathPattern.test(route.path)) refuse('bad path')
    if (!scopePattern.test(String(route.scope))) refuse('has no scope')
    if (route.method !== 'GET' && (route.audit ?? '') === '') refuse('has no audit action')
    if (!namePattern.test(route.name ?? '')) refuse('has no name')
    if (names.has(route.name)) refuse(`has the name of another, ${route.name}`)
    if (route.body && route.example === undefined) refuse('has no example of its body')
    names.add(route.name)
    const key = `${route.method} ${route.path.replaceAll(/\{\w+\}/g, '{}')}`
    if (seen.has(key)) refuse('is there twice')
    seen.add(key)
  }
}

/** Fixed segments before parameters: `/containers/list` is tried before `/containers/{id}`. */
export function orderRoutes(routes: readonly Route[]): Route[] {
  const rank = (route: Route): string => route.path.replaceAll(/\{\w+\}/g, '~')
  return routes.toSorted((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0))
}
