import { expect } from 'chai'
import { createAccess, noLimits } from '../../../gateway/callers.js'
import { Store } from '../../../gateway/store/store.js'
import type { BerthError } from '../../../shared/errors.js'
import { adminBrowser, Browser, password } from '../../support/gateway/browser.js'
import { silentLog } from '../../support/gateway/redis.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { deadlineOf } from '../../support/promised-time.js'

const newPassword = 'staple paper clip 7'

describe('sessions', () => {
  let gateway: TestGateway
  let count = 0

  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const newAdmin = async () => {
    const username = `user${++count}`
    return { username, browser: await adminBrowser(gateway, username) }
  }
  const again = async (username: string, given = password) => {
    const browser = new Browser(gateway)
    const { status, text } = await browser.login(username, given)
    expect(status, text).to.equal(200)
    return browser
  }
  const alive = async (browser: Browser) => (await browser.request('GET', '/session')).status === 200

  it('show the user, the scopes and the state of the second factor', async () => {
    const { username, browser } = await newAdmin()
    const { body } = await browser.request('GET', '/session')
    expect(body.data).to.include({ username, kind: 'admin', two_factor: false, two_factor_required: false })
    expect(body.data.scopes).to.deep.equal(['*'])
  })

  it('end when the user logs out', async () => {
    const { browser } = await newAdmin()
    const { token } = browser
    expect((await browser.request('POST', '/logout')).status).to.equal(200)
    expect(browser.cookies.has('berth')).to.equal(false)
    browser.cookies.set('berth', token)
    expect(await browser.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
  })

  it('are listed, and can be ended individually', async () => {
    const { username, browser } = await newAdmin()
    const other = await again(username)
    const { body } = await browser.request('GET', '/account/sessions')
    const rows = body.data as { id: string; current: boolean }[]
    expect(rows.map((row) => row.current).sort()).to.deep.equal([false, true])
    const { id } = rows.find((row) => !row.current)!
    expect((await browser.request('DELETE', `/account/sessions/${id}`)).status).to.equal(200)
    expect([await alive(browser), await alive(other)]).to.deep.equal([true, false])
    expect(await browser.answerTo('DELETE', `/account/sessions/${id}`)).to.deep.equal([404, 'not_found'])
  })

  it('cannot be ended by other users', async () => {
    const [one, two] = [await newAdmin(), await newAdmin()]
    const { body } = await one.browser.request('GET', '/account/sessions')
    const answer = await two.browser.answerTo('DELETE', `/account/sessions/${body.data[0].id}`)
    expect(answer).to.deep.equal([404, 'not_found'])
    expect(await alive(one.browser)).to.equal(true)
  })

  it('can all be ended by one request, except the session that sends it', async () => {
    const { username, browser } = await newAdmin()
    const others = [await again(username), await again(username)]
    expect((await browser.request('DELETE', '/account/sessions')).body.data).to.deep.equal({ ended: 2 })
    expect(await Promise.all([browser, ...others].map(alive))).to.deep.equal([true, false, false])
  })

  it('end when the password changes, except the session that changed the password', async () => {
    const { username, browser } = await newAdmin()
    const other = await again(username)
    const { token } = browser
    const body = { current_password: password, password: newPassword }
    expect((await browser.request('POST', '/account/password', { body })).status).to.equal(200)
    expect(browser.token).to.not.equal(token)
    expect([await alive(browser), await alive(other)]).to.deep.equal([true, false])
    const stolen = new Browser(gateway)
    stolen.cookies.set('berth', token)
    expect(await alive(stolen), 'the cookie from before').to.equal(false)
    expect((await new Browser(gateway).login(username, password)).status).to.equal(401)
    await again(username, newPassword)
  })

  for (const [what, body, code] of [
    ['a wrong current password', { current_password: 'wrong horse', password: newPassword }, 'confirmation_failed'],
    ['a new password that is too short', { current_password: password, password: 'short' }, 'invalid_field'],
    [
      'a new password of one repeated letter',
      { current_password: password, password: 'a'.repeat(20) },
      'invalid_field',
    ],
    ['a missing new password', { current_password: password }, 'missing_field'],
  ] as const)
    it(`cannot change the password with ${what}`, async () => {
      const { username, browser } = await newAdmin()
      expect((await browser.request('POST', '/account/password', { body })).body.code).to.equal(code)
      await again(username)
    })

  it('limit guesses at the current password', async () => {
    const { browser } = await newAdmin()
    browser.cookies.delete('berth-device')
    const body = { current_password: 'wrong horse battery', password: newPassword }
    const codes = []
    for (let n = 0; n < 6; n++) codes.push((await browser.request('POST', '/account/password', { body })).body.code)
    expect(codes).to.deep.equal([...Array<string>(5).fill('confirmation_failed'), 'rate_limited'])
  })

  it('end at all gateways immediately', async () => {
    const { browser, username } = await newAdmin()
    const store = new Store({ url: gateway.redis.url, prefix: 'btest:', log: silentLog })
    const options = { store, secret: Buffer.alloc(32), stateDir: '/nonexistent', auditKeep: 100 }
    const other = createAccess({ ...options, limits: noLimits, log: silentLog })
    store.start()
    try {
      await waitFor(() => store.ready())
      const headers = { cookie: `berth=${browser.token}` }
      const there = () =>
        other.authenticator.authenticate({ headers, method: 'GET' }, '192.0.2.1').then(
          ({ user }) => user,
          (error: unknown) => (error as BerthError).code,
        )
      expect(await waitFor(async () => (await there()) === username && username)).to.equal(username)
      await browser.request('POST', '/logout')
      await waitFor(async () => (await there()) === 'unauthorized', { timeoutMs: deadlineOf(2000) })
    } finally {
      await other.close()
      await store.close()
    }
  })

  it('end when another gateway disables the account', async () => {
    const { browser, username } = await newAdmin()
    const store = await gateway.redis.openStore()
    const account = (await gateway.access.accounts.accounts.findByName(username))!
    expect(await alive(browser)).to.equal(true)
    // The change is written only to the store, as if another gateway had made it.
    await store.client.set(store.key('account', account.id), JSON.stringify({ ...account, disabled: true }))
    await waitFor(async () => !(await alive(browser)), { timeoutMs: deadlineOf(2000) })
  })

  it('are limited in number, so that a new session ends the oldest session', async () => {
    const { username, browser } = await newAdmin()
    const account = await gateway.access.accounts.accounts.findByName(username)
    const device = { address: '192.0.2.1', userAgent: 'x' }
    for (let n = 0; n < 50; n++) await gateway.access.accounts.sessions.begin(account!, device, false)
    expect(await alive(browser)).to.equal(false)
    expect(await gateway.access.accounts.sessions.list(account!)).to.have.length(50)
  })

  it('end after a week, or after two hours without a request (twelve with the option to stay logged in)', async () => {
    const { username, browser } = await newAdmin()
    const { sessions, accounts } = gateway.access.accounts
    const account = (await accounts.findByName(username))!
    await browser.login(username, password, { keep: true })
    const rows = (await sessions.list(account)).map(({ record }) => [
      record.idleMs / 3_600_000,
      (record.expiresAtMs - record.createdAtMs) / 86_400_000,
    ])
    expect(rows.sort((x, y) => x[0]! - y[0]!)).to.deep.equal([
      [2, 7],
      [12, 7],
    ])
  })

  it('are deleted from the store if they have not been used for too long', async () => {
    const { username, browser } = await newAdmin()
    const { sessions, accounts } = gateway.access.accounts
    const account = (await accounts.findByName(username))!
    const { client } = gateway.store
    const [digest = ''] = await client.sMembers(gateway.store.key('account-sessions', account.id))
    const key = gateway.store.key('session', digest)
    const record = JSON.parse((await client.get(key))!) as { idleMs: number }
    await client.set(key, JSON.stringify({ ...record, idleMs: 400 }), { expiration: 'KEEPTTL' })
    await client.pExpire(gateway.store.key('session-seen', digest), 400)
    await waitFor(async () => (await sessions.list(account)).length === 0, { what: 'the idle one to go' })
    expect(await browser.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
  })

  it('require the password for sensitive changes if its last confirmation is ten minutes old', async () => {
    const { username, browser } = await newAdmin()
    const account = (await gateway.access.accounts.accounts.findByName(username))!
    const [digest = ''] = await gateway.store.client.sMembers(gateway.store.key('account-sessions', account.id))
    const key = gateway.store.key('session', digest)
    const record = JSON.parse((await gateway.store.client.get(key))!) as { confirmedAtMs: number }
    const old = { ...record, confirmedAtMs: Date.now() - 10 * 60_000 - 1 }
    await gateway.store.client.set(key, JSON.stringify(old), { expiration: 'KEEPTTL' })
    await gateway.store.ping()
    const make = { body: { name: 'x' } }
    expect(await browser.answerTo('POST', '/api-keys', make)).to.deep.equal([403, 'confirmation_required'])
    expect((await browser.request('GET', '/api-keys')).status).to.equal(200)
    const wrong = { body: { password: 'wrong horse battery' } }
    expect(await browser.answerTo('POST', '/account/confirm', wrong)).to.deep.equal([403, 'confirmation_failed'])
    expect((await browser.request('POST', '/account/confirm', { body: { password } })).status).to.equal(200)
    expect((await browser.request('POST', '/api-keys', make)).status).to.equal(201)
  })
})
