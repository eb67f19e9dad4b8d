import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import type { Route } from '../../../gateway/http/route.js'
import { SubUserCalls, type Caller } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { eventually } from '../../support/wait.js'

/*
 * Calls every route with a key that is restricted to one container, and as a sub-user of that container. No answer
 * may reveal another container. The test covers new routes automatically.
 */
for (const who of ['a key bound to one container', 'a sub-user of one container'])
  describe(`${who} on every route`, function () {
    const isSubUser = who.startsWith('a sub-user')
    let gateway: TestGateway
    let ask: Caller
    let own: { uuid: string; id: number; name: string }
    let foreign: { uuid: string; id: number; name: string }
    let foreignTask: string

    before(async () => {
      gateway = await startTestGateway()
      own = await gateway.fleet.addGuest({ name: 'own-guest' })
      foreign = await gateway.fleet.addGuest({ name: 'foreign-guest', ipv4: '10.9.8.7' })
      await gateway.fleet.warn('host-a', 'foreign-guest is not shown')
      const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [own.uuid] })
      const calls = new SubUserCalls(gateway)
      ask = isSubUser
        ? await calls.loggedIn(await calls.make({ container_name: own.name }))
        : (method, path, options) => gateway.request(method, path, { ...options, key })
      const stop = await gateway.request('POST', `/containers/${foreign.id}/stop`)
      foreignTask = stop.body.data.task_id as string
    })
    after(() => gateway.close())

    /** Sends a fixed request id, because answers must be identical byte for byte. */
    const call = async (route: Route, values: Record<string, string>, as = ask) => {
      const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '0')
      const headers = { 'x-request-id': 'the-same-for-all' }
      return as(route.method, path, { headers })
    }
    const asAdministrator: Caller = (...request) => gateway.request(...request)
    const isClosed = ({ bound, subUser = 'refused' }: Route): boolean =>
      bound === 'refused' || (isSubUser && subUser === 'refused')
    /** True for routes that are public or about the caller's own session. API keys have no session. */
    const isOfPeople = ({ scope }: Route): boolean => ['public', 'session'].includes(scope)
    const routesBound = (...words: string[]) =>
      gateway.api.routes.filter((route) => words.includes(route.bound) && !isOfPeople(route) && !isClosed(route))

    it('gets the same answer for another container as for a missing container', async () => {
      for (const route of routesBound('guest')) {
        const label = `${route.method} ${route.path}`
        const none = await call(route, { id: '999999' })
        expect(none.status, label).to.be.oneOf([400, 404])
        for (const id of [String(foreign.id), foreign.uuid, foreign.name])
          expect(await call(route, { id }), label).to.deep.include({ status: none.status, text: none.text })
      }
    })

    it('gets the same answer for a task of another container as for a missing task', async () => {
      for (const route of routesBound('task')) {
        const none = await call(route, { task_id: crypto.randomUUID() })
        expect(none.status).to.equal(404)
        expect((await call(route, { task_id: foreignTask })).text).to.equal(none.text)
      }
    })

    it('is refused with 403 if the route does not permit this kind of caller', async () => {
      for (const route of gateway.api.routes.filter(isClosed)) {
        if (route.scope === 'public') continue
        const { status, body } = await call(route, { id: 'host-a' })
        expect([status, body.code], `${route.method} ${route.path}`).to.deep.equal([403, 'insufficient_scope'])
      }
    })

    it('cannot use any route that manages hosts', () => {
      const open = gateway.api.routes.filter((route) => route.scope === 'host:manage' && !isClosed(route))
      expect(open.map(({ name }) => name)).to.deep.equal([])
    })

    it('cannot see other containers in any answer', async () => {
      for (const route of routesBound('own', 'same')) {
        const { text } = await call(route, { id: 'host-a' })
        for (const mark of [foreign.name, foreign.uuid, foreignTask, '10.9.8.7'])
          expect(text, `${route.method} ${route.path}`).not.to.include(mark)
      }
    })

    it('gets the same answer as an administrator if the route shows everyone the same data', async () => {
      // Repeated, because measured values can change between the two requests.
      for (const route of routesBound('same'))
        await eventually(async () =>
          expect((await call(route, {})).text, route.path).to.equal((await call(route, {}, asAdministrator)).text),
        )
    })

    it('cannot learn why a host port is not available', async () => {
      const map = (fields: object) =>
        ask('POST', `/containers/${own.id}/port-mappings`, {
          body: { container_port: 80, ...fields },
          headers: { 'x-request-id': 'the-same-for-all' },
        })
      const [foreignPort] = gateway.fleet.view.findGuest(foreign.uuid)!.guest.portMappings
      if (isSubUser) {
        const { status, body } = await map({ host_port: foreignPort!.hostPort })
        return expect([status, body.code]).to.deep.equal([403, 'insufficient_scope'])
      }
      const mapped = await map({ host_port: foreignPort!.hostPort })
      const outside = await map({ host_port: 1024 })
      expect([mapped.status, mapped.body.code]).to.deep.equal([409, 'port_conflict'])
      expect(mapped.text).to.equal(outside.text)
      const log = await ask('GET', '/audit-logs')
      expect(log.text)
        .to.include('port_conflict')
        .and.not.to.match(/in use|mapped|host ports must/)
    })

    it('cannot learn addresses of other containers or the free capacity from errors', async () => {
      const path = isSubUser ? 'port-mappings' : 'ipv6'
      const body = { container_port: 80 }
      for (const [code, kind] of [
        ['address_in_use', 'conflict'],
        ['resource_exhausted', 'exhausted'],
      ] as const) {
        gateway.fleet.agentFailure = new BerthError(kind, code, '10.9.8.7 is used by foreign-guest, 3 left')
        const { status, body: refusal, text } = await ask('POST', `/containers/${own.id}/${path}`, { body })
        const told = await gateway.request('POST', `/containers/${own.id}/${path}`, { body })
        gateway.fleet.agentFailure = undefined
        expect([status, refusal.code]).to.deep.equal([409, code])
        expect(text).not.to.match(/10\.9\.8\.7|foreign-guest|3 left/)
        expect(told.text).to.include('foreign-guest')
      }
    })
  })
