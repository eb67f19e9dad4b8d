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
    ['no word on bound callers', { bound: undefined }],
    ['an unknown word on bound callers', { bound: 'anything' }],
    ['no word on sub-users', { subUser: undefined }],
    ['an unknown word on sub-users', { subUser: 'anything' }],
    ['sub-users although bound callers are rejected', { bound: 'refused', subUser: 'allowed' }],
    ['a guest without a lookup', { path: '/containers/{id}/thing', bound: 'own' }],
    ['a task without a lookup', { path: '/tasks/{task_id}', bound: 'same' }],
    ['a guest that its path does not name', { bound: 'guest' }],
    ['no audit action', { audit: undefined }],
    ['an empty audit action', { audit: '' }],
    ['a bad path', { path: 'things' }],
    ['no name', { name: undefined }],
    ['a name that is not a function name', { name: 'Make-Thing' }],
    ['a body without an example', { body: {} }],
  ] as const)
    it(`refuses a route that has ${name}`, () => {
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
