import { Writable } from 'node:stream'
import { expect } from 'chai'
import { pino } from 'pino'
import { Browser } from '../../support/gateway/browser.js'
import { SubUserCalls, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the login of a sub-user', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let made: MadeSubUser
  let uuid: string
  let logged: string

  before(async () => {
    const write = (line: Buffer, _: string, done: () => void): void => {
      logged += line.toString()
      done()
    }
    gateway = await startTestGateway({ log: pino({ level: 'trace' }, new Writable({ write })) })
    calls = new SubUserCalls(gateway)
  })
  after(() => gateway.close())
  beforeEach(async () => {
    logged = ''
    uuid = (await gateway.fleet.addGuest({ name: 'own' })).uuid
    made = await calls.make({ container_name: 'own' })
  })
  afterEach(() => calls.clear())

  const byName = (password: string, username = made.username) =>
    new Browser(gateway).request('POST', '/sub-user/login', { body: { username, password } })
  const byCode = (password: string, code = made.access_code) =>
    new Browser(gateway).request('POST', '/sub-user/access', { body: { code, password } })

  for (const [name, path, body] of [
    ['the user name', '/sub-user/login', () => ({ username: made.username, password: made.password })],
    ['the code of the login link', '/sub-user/access', () => ({ code: made.access_code, password: made.password })],
    ['the user name on the general login page', '/login', () => ({ username: made.username, password: made.password })],
  ] as const)
    it(`with ${name} starts a session that shows its containers`, async () => {
      const browser = new Browser(gateway)
      const { status, body: answer, text } = await browser.request('POST', path, { body: body() })
      expect(status, text).to.equal(200)
      const about = path === '/login' ? {} : { container_uuids: [uuid] }
      expect(answer.data).to.deep.equal({ username: made.username, kind: 'sub_user', ...about })
      expect(text).not.to.include(made.password)
      await browser.readCsrf()
      expect((await browser.request('GET', '/containers')).body.data).to.have.length(1)
      expect((await browser.request('POST', '/containers/own/stop', { body: {} })).status).to.equal(202)
      expect((await browser.request('POST', '/logout')).status).to.equal(200)
      expect((await browser.request('GET', '/containers')).status).to.equal(401)
    })

  it('fails with the same error for wrong data and for a disabled, expired or unknown sub-user', async () => {
    await gateway.request('POST', '/admins', {
      body: { username: 'root', password: 'correct horse battery' },
    })
    const off = await calls.make({ container_name: 'own', username: 'off', disabled: true })
    const over = await calls.make({ container_name: 'own', username: 'over', expires_at: '2001-01-01' })
    const headers = { 'x-request-id': 'the-same-for-all' }
    const texts = new Set<string>()
    for (const [path, fields] of [
      ['/sub-user/login', { username: made.username, password: 'wrong' }],
      ['/sub-user/login', { username: 'nobody', password: made.password }],
      ['/sub-user/login', { username: 'root', password: 'correct horse battery' }],
      ['/sub-user/login', { username: 'off', password: off.password }],
      ['/sub-user/login', { username: 'over', password: over.password }],
      ['/login', { username: 'over', password: over.password }],
      ['/sub-user/access', { code: made.access_code, password: 'wrong' }],
      ['/sub-user/access', { code: 'x', password: made.password }],
      ['/sub-user/access', { code: 'A'.repeat(22), password: made.password }],
      ['/sub-user/access', { code: off.access_code, password: off.password }],
    ] as const) {
      const { status, text } = await new Browser(gateway, headers).request('POST', path, { body: fields })
      expect(status, JSON.stringify(fields)).to.equal(401)
      texts.add(`${path === '/sub-user/access' ? 'code' : 'name'} ${text}`)
    }
    expect(texts.size, [...texts].join('\n')).to.equal(2)
  })

  it('requires the new password after a rotation, and the new access code if this code was rotated, too', async () => {
    const rotate = await gateway.request('POST', `/sub-users/${made.id}/rotate-password`, {
      body: { rotate_code: true },
    })
    const { password, access_code: code } = rotate.body.data as MadeSubUser
    expect((await byName(made.password)).status).to.equal(401)
    expect((await byCode(made.password)).status).to.equal(401)
    expect((await byCode(password)).status).to.equal(401)
    expect((await byCode(password, code)).status).to.equal(200)
    expect((await byName(password)).status).to.equal(200)
  })

  it('is recorded in the login log, which the sub-user can read, and in the list of sub-users', async () => {
    await byName('wrong')
    const browser = new Browser(gateway, { 'user-agent': 'Firefox' })
    await browser.request('POST', '/sub-user/access', {
      body: { code: made.access_code, password: made.password },
    })
    const { body } = await gateway.request('GET', `/sub-users/${made.id}/login-logs`)
    expect(
      (body.data as Record<string, unknown>[]).map(({ success, method, reason }) => [success, method, reason]),
    ).to.deep.equal([
      [true, 'access_code', ''],
      [false, 'password', 'wrong_password'],
    ])
    const row = await calls.find(made.id)
    expect(row).to.include({ last_login_ip: '127.0.0.1', last_login_ua: 'Firefox' })
    expect(row.last_login).to.match(/^\d{4}-/)
    const own = await browser.request('GET', '/account/login-logs')
    expect(own.body.data).to.deep.equal(body.data)
    await browser.readCsrf()
    await browser.request('POST', '/containers/own/stop', { body: {} })
    const audit = await browser.request('GET', '/account/audit-logs')
    expect((audit.body.data as { action: string }[]).map(({ action }) => action)).to.include('container.stop')
  })

  it('starts with a link that appears in no log and does not reveal whether its code is valid', async () => {
    const [known, unknown] = [await fetchOnce(`/u/${made.access_code}`), await fetchOnce(`/u/${'A'.repeat(22)}`)]
    expect([known.status, known.headers.get('location')]).to.deep.equal([302, `/login#code=${made.access_code}`])
    expect(known.headers.get('referrer-policy')).to.equal('no-referrer')
    expect([unknown.status, unknown.headers.get('location')]).to.deep.equal([302, `/login#code=${'A'.repeat(22)}`])
    const page = await fetchOnce(`/login?code=${made.access_code}`)
    expect([page.status, await page.text()]).to.deep.equal([200, await (await fetchOnce('/login')).text()])
    expect((await fetchOnce('/u/short')).status).to.equal(404)
    await gateway.request('GET', `/api/v1/u/${made.access_code}`)
    await byCode(made.password)
    await byName(made.password)
    await gateway.request('POST', `/sub-users/${made.id}/rotate-password`)
    expect(logged).to.include('/u/***')
    for (const secret of [made.access_code, made.password]) expect(logged).not.to.include(secret)
    const stored = await gateway.redis.readAof()
    for (const secret of [made.access_code, made.password]) expect(stored).not.to.include(secret)
    const { text: metrics } = await gateway.request('GET', '/metrics')
    expect(metrics).not.to.include(made.access_code)
  })

  const fetchOnce = (path: string): Promise<Response> => fetch(gateway.url + path, { redirect: 'manual' })
})
