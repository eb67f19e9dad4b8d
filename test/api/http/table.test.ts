import { expect } from 'chai'
import { createApp } from '../../../gateway/http/app.js'
import { route, type Route } from '../../../gateway/http/route.js'
import { silentLog } from '../../support/gateway/redis.js'

describe('the route table', () => {
  const handle = () => ({})
  const good = {
    method: 'POST',
    path: '/things',
    name: 'makeThing',
    scope: 'thing:make',
    bound: 'same',
    subUser: 'refused',
    audit: 'thing.make',
    summary: '',
    tag: '',
    handle,
  }
  for (const [name, change] of [
    ['no scope', { scope: undefined }],
    ['an empty scope', { scope: '' }],
    ['no value for the access of callers bound to containers', { bound: undefined }],
    ['an unknown value for the access of callers bound to containers', { bound: 'anything' }],
    ['no value for the access of sub-users', { subUser: undefined }],
    ['an unknown value for the access of sub-users', { subUser: 'anything' }],
    ['access for sub-users but not for other callers bound to containers', { bound: 'refused', subUser: 'allowed' }],
    [
      'a container in its path but does not check the owner of the container',
      { path: '/containers/{id}/thing', bound: 'own' },
    ],
    ['a task in its path but does not check the owner of the task', { path: '/tasks/{task_id}', bound: 'same' }],
    ['an owner check but no container in its path', { bound: 'guest' }],
    ['no audit action', { audit: undefined }],
    ['an empty audit action', { audit: '' }],
    ['a path without a leading slash', { path: 'things' }],
    ['no name for its client function', { name: undefined }],
    ['a name that is not valid for a function', { name: 'Make-Thing' }],
    ['a body without an example', { body: {} }],
  ] as const)
    it(`refuses a route with ${name}`, () => {
      const broken = { ...good, ...change } as unknown as Route
      const start = (routes: Route[]) => () =>
        createApp({
          routes,
          pages: [],
          access: {},
          maxBodyBytes: 1,
          trustedProxies: [],
          metrics: {},
          log: silentLog,
        } as never)
      expect(start([route(good as never)])).not.to.throw()
      expect(start([broken])).to.throw(/route POST/)
      expect(start([route(good as never), route({ ...good, name: 'other' } as never)])).to.throw(/twice/)
      expect(start([route(good as never), route({ ...good, path: '/others' } as never)])).to.throw(
        /the name makeThing is used by another route/,
      )
    })
})
