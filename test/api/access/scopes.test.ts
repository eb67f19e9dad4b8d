import { expect } from 'chai'
import { coversScope, scopeCatalogue } from '../../../gateway/access/scopes.js'
import { isForSessions, type Route } from '../../../gateway/http/route.js'
import { findScopes } from '../../../panel/src/pages/keys/scopes.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/*
 * Each route answers 401 without a key, 403 to a key that has every scope except the required one, and neither 401 nor
 * 403 to a key that has only the required scope.
 */
describe('the scope of every route', function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const call = (route: Route, prefix: string, key: string) =>
    gateway.request(route.method, prefix + route.path.replaceAll(/\{\w+\}/g, '999999'), { key })

  it('is in the catalogue of scopes', () => {
    for (const route of gateway.api.routes)
      if (!['/language', '/version', '/caller', '/cli-logins/end', '/batch-action'].includes(route.path))
        // `/batch-action` has no scope of its own, because it requires the scope of its action.
        expect([...scopeCatalogue, '*', 'session', 'public'], `${route.method} ${route.path}`).to.include(route.scope)
  })

  it('is offered by the panel for API keys', () => {
    expect(findScopes('').flatMap(({ scopes }) => scopes)).to.deep.equal(scopeCatalogue)
  })

  it('is required, so that the answer without a key is 401 under both path prefixes', async () => {
    for (const route of gateway.api.routes.filter(({ scope }) => scope !== 'public'))
      for (const prefix of ['/api/v1', '/api'])
        expect((await call(route, prefix, '')).status, `${route.method} ${prefix}${route.path}`).to.equal(401)
  })

  it('is required, so that the answer with all other scopes is 403', async () => {
    const routes = gateway.api.routes.filter(({ scope }) => !['public', 'any'].includes(scope))
    for (const scope of new Set(routes.map((route) => route.scope))) {
      const others = await gateway.makeKey({ scopes: scopeCatalogue.filter((other) => !coversScope([other], scope)) })
      for (const route of routes.filter((route) => route.scope === scope)) {
        const { status, body, text } = await call(route, '/api', others)
        const label = `${route.method} ${route.path}: ${text.slice(0, 200)}`
        expect([status, body.code], label).to.deep.equal([403, 'insufficient_scope'])
      }
    }
  })

  it('is sufficient: with only this scope, the answer is not 401, 403 or 500', async () => {
    const routes = gateway.api.routes.filter((one) => one.scope !== 'public' && !isForSessions(one))
    for (const scope of new Set(routes.map((route) => route.scope))) {
      const key = await gateway.makeKey({ scopes: [scope === 'any' ? scopeCatalogue[0]! : scope] })
      for (const route of routes.filter((route) => route.scope === scope)) {
        const { status, text } = await call(route, '/api/v1', key)
        expect([401, 403, 500], `${route.method} ${route.path}: ${text.slice(0, 200)}`).not.to.include(status)
      }
    }
  })

  it('is part of the administrator’s key, which never gets the answer 401, 403 or 500', async () => {
    for (const route of gateway.api.routes.filter((one) => one.scope !== 'public' && !isForSessions(one))) {
      const { status, text } = await call(route, '/api/v1', gateway.adminKey)
      expect([401, 403, 500], `${route.method} ${route.path}: ${text}`).not.to.include(status)
    }
  })

  it('belongs to the wildcard of its area, and is granted by default only if it is a read scope', async () => {
    const power = await gateway.makeKey({ scopes: ['container:*'] })
    const reader = await gateway.makeKey({})
    expect((await gateway.request('POST', '/containers/999999/start', { key: power })).status).to.equal(404)
    expect((await gateway.request('GET', '/dashboard', { key: power })).status).to.equal(403)
    expect((await gateway.request('GET', '/containers', { key: reader })).status).to.equal(200)
    expect((await gateway.request('POST', '/containers/999999/start', { key: reader })).status).to.equal(403)
    expect((await gateway.request('GET', '/audit-logs', { key: reader })).status).to.equal(403)
  })
})
