import { expect } from 'chai'
import { loggedPath } from './request-log.js'

describe('the log of requests', () => {
  for (const [url, path] of [
    ['/api/v1/containers?ticket=T', '/api/v1/containers'],
    ['/u/pGmR3h8sQk2vX0y1ZaBcDe', '/u/***'],
    ['/u/pGmR3h8sQk2vX0y1ZaBcDe/', '/u/***/'],
    ['/U/pGmR3h8sQk2vX0y1ZaBcDe/more?x=1', '/U/***/more'],
    ['/api/v1/u/pGmR3h8sQk2vX0y1ZaBcDe', '/api/v1/u/***'],
    ['//u/pGmR3h8sQk2vX0y1ZaBcDe', '//u/***'],
    ['/containers/vu/start', '/containers/vu/start'],
    ['/login?code=pGmR3h8sQk2vX0y1ZaBcDe', '/login'],
  ])
    it(`shows the path ${path} for ${url}`, () => expect(loggedPath(url!).toLowerCase()).to.equal(path!.toLowerCase()))
})
