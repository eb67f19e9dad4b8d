import { expect } from 'chai'
import { GatewayGroup } from '../support/gateway/gateway-group.js'
import type { Reply } from '../support/gateway/test-gateway.js'

const mostKeys = 3
/** Number of wrong passwords from one address after which the next attempt has to wait. */
const freeLogins = 5

describe('two gateways with one store', function () {
  let group: GatewayGroup

  before(async () => {
    group = await GatewayGroup.start(2, { limits: { api_keys: mostKeys } })
  })
  after(() => group?.close())

  /** Sends a request to the first gateway if `n` is even, otherwise to the second one. */
  const send = (n: number, ...request: Parameters<(typeof group.members)[number]['request']>): Promise<Reply> =>
    group.members[n % 2]!.request(...request)
  const login = (n: number, username: string): Promise<Reply> =>
    send(n, 'POST', '/login', { key: '', body: { username, password: `wrong password ${n}` } })
  const countOf = (replies: readonly Reply[], status: number): number =>
    replies.filter((reply) => reply.status === status).length

  it('count failed logins together, and require the same wait at each gateway', async () => {
    for (let n = 0; n < freeLogins; n++) expect((await login(n, 'ada')).status, `attempt ${n}`).to.equal(401)
    for (const n of [0, 1]) {
      const { status, body, headers } = await login(n, 'ada')
      expect([status, body.code], `gateway ${n}`).to.deep.equal([429, 'rate_limited'])
      expect(Number(headers['retry-after'])).to.be.greaterThan(0)
    }
  })

  it('admit only as many concurrent logins together as a single gateway admits', async () => {
    const replies = await Promise.all(Array.from({ length: 16 }, (_, n) => login(n, 'grace')))
    expect([countOf(replies, 401), countOf(replies, 429)]).to.deep.equal([freeLogins, 16 - freeLogins])
  })

  it('accept a set-up link only once, even if both gateways receive requests with it at the same time', async () => {
    const { body } = await send(0, 'POST', '/admins', { body: { username: 'hopper' } })
    const setup = { token: String(body.data.setup_token), password: 'correct horse battery' }
    const replies = await Promise.all([0, 1].map((n) => send(n, 'POST', '/setup', { key: '', body: setup })))
    expect([countOf(replies, 201), countOf(replies, 404)]).to.deep.equal([1, 1])
    for (const n of [0, 1]) expect((await send(n, 'POST', '/setup', { key: '', body: setup })).status).to.equal(404)
  })

  it('count together all keys that a restricted API key has created, no matter at which gateway', async () => {
    const scopes = ['apikey:create', 'container:read']
    const { body } = await send(0, 'POST', '/api-keys', { body: { name: 'reseller', scopes } })
    const key = String(body.data.key)
    const create = (n: number): Promise<Reply> =>
      send(n, 'POST', '/api-keys', { key, body: { name: `child-${n}`, scopes: ['container:read'] } })
    const replies = await Promise.all(Array.from({ length: 2 * mostKeys }, (_, n) => create(n)))
    expect([countOf(replies, 201), countOf(replies, 409)]).to.deep.equal([mostKeys, mostKeys])
    for (const n of [0, 1]) expect((await create(n)).body.code, `gateway ${n}`).to.equal('key_limit_reached')
  })
})
