import { expect } from 'chai'
import { Browser, makeAdmin } from '../../support/gateway/browser.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const rounds = 20
/** Maximum ratio of two medians. A login without a hash check takes a tenth of the time (`scripts/bench`). */
const most = 2.5

/** The duration of a failed login must not reveal which names exist. */
describe('the time of a failed login', function () {
  let gateway: TestGateway
  let code = ''
  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
    await makeAdmin(gateway, 'known')
    const id = await makeAdmin(gateway, 'disabled')
    await makeAdmin(gateway, 'last')
    await gateway.request('PATCH', `/admins/${id}`, { body: { disabled: true } })
    await gateway.request('POST', '/admins', { body: { username: 'invited' } })
    await gateway.fleet.addGuest({ name: 'own' })
    code = (await new SubUserCalls(gateway).make({ container_name: 'own' })).access_code
  })
  after(() => gateway.close())

  let sources = 0
  async function timeOf(path: string, body: object): Promise<number> {
    const n = ++sources
    const browser = new Browser(gateway, { 'x-forwarded-for': `10.8.${n >> 8}.${n & 255}` })
    const begunMs = performance.now()
    const { status, text } = await browser.request('POST', path, { body })
    const tookMs = performance.now() - begunMs
    expect(status, text).to.equal(401)
    return tookMs
  }
  const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[times.length >> 1]!

  const password = 'not this one'
  for (const [what, path, bodies] of [
    ['name', '/login', () => ['known', 'unknown', 'disabled', 'invited'].map((username) => ({ username, password }))],
    [
      'access code',
      '/sub-user/access',
      () => [code, 'A'.repeat(22)].map((access_code) => ({ code: access_code, password })),
    ],
  ] as const)
    it(`is the same whether the ${what} exists or not`, async () => {
      const all = bodies()
      const times = all.map((): number[] => [])
      for (let round = 0; round < rounds; round++)
        for (const [index, body] of all.entries()) times[index]!.push(await timeOf(path, body))
      const medians = times.map(median)
      console.log(`      medians in ms: ${medians.map((ms) => ms.toFixed(1)).join(', ')}`)
      expect(Math.max(...medians) / Math.min(...medians)).to.be.below(most)
    })
})
