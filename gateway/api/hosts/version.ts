import { Type } from 'typebox'
import { route, type Route } from '../../http/route.js'

export function versionRoute(version: string): Route {
  return route({
    method: 'GET',
    path: '/version',
    name: 'getVersion',
    scope: 'any',
    bound: 'same',
    subUser: 'allowed',
    tag: 'Overview',
    summary: 'Returns the version of this gateway. `GET /hosts` returns the version of each agent',
    data: Type.Object({ version: Type.String() }, { title: 'Version' }),
    handle: () => ({ data: { version } }),
  })
}
