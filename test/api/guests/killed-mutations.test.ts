import { expect } from 'chai'
import { killedMutations } from '../../support/gateway/killed-mutations.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** Routes with these tags need a test with kills. Routes in `elsewhere` change nothing or have other tests. */
const tags = ['Accounts', 'Settings', 'Security', 'Logs']
const elsewhere = ['POST /swap', 'POST /setup/link']

describe('the tests that kill gateway and Redis', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  it('cover every route that changes accounts, access, TLS or abuse settings', () => {
    const mutations = gateway.api.routes
      .filter(({ method, tag }) => method !== 'GET' && tags.includes(tag))
      .map(({ method, path }) => `${method} ${path}`)
      .filter((name) => !elsewhere.includes(name))
    expect(Object.values(killedMutations).flat().sort()).to.deep.equal(mutations.sort())
  })
})
