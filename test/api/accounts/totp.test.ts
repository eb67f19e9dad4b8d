import { expect } from 'chai'
import { generateSync } from 'otplib'
import { digestToken } from '../../../gateway/accounts/session-secret.js'
import { adminBrowser, Browser, password } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('second factors', () => {
  let gateway: TestGateway
  let count = 0

  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
  })
  after(() => gateway.close())

  /** The code of the time step `steps` after now. The gateway accepts the previous, current and next code once each. */
  const codeOf = (secret: string, steps = 0) =>
    generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + 30 * steps })

  async function enrolled() {
    const username = `user${++count}`
    const browser = await adminBrowser(gateway, username)
    const { body } = await browser.request('POST', '/account/totp')
    const secret = body.data.secret as string
    const confirmed = await browser.request('POST', '/account/totp/confirm', {
      body: { code: codeOf(secret, -1) },
    })
    expect(confirmed.status, confirmed.text).to.equal(200)
    await browser.readCsrf()
    return {
      username,
      browser,
      secret,
      uri: body.data.uri as string,
      codes: confirmed.body.data.recovery_codes as string[],
    }
  }

  /** @returns a browser that has sent the password but not yet the code */
  async function halfway(username: string) {
    const browser = new Browser(gateway, { 'x-forwarded-for': `198.51.100.${++count}` })
    const { status, body } = await browser.login(username, password)
    expect([status, body.data]).to.deep.equal([202, { otp: true, authenticator_app: true, passkey: false }])
    return browser
  }
  const give = (browser: Browser, body: object) => browser.answerTo('POST', '/login/otp', { body })

  it('are set up by confirming a first code, and are required from then on', async () => {
    const { username, secret, uri, codes } = await enrolled()
    expect(uri).to.match(/^otpauth:\/\/totp\/Berth:user\d+\?secret=[A-Z2-7]{32}&issuer=Berth/)
    expect(new Set(codes).size).to.equal(10)
    for (const code of codes) expect(code).to.match(/^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)
    const browser = await halfway(username)
    expect(await browser.answerTo('GET', '/session'), 'before the code').to.deep.equal([401, 'unauthorized'])
    expect(await give(browser, { code: codeOf(secret) })).to.deep.equal([200, undefined])
    expect((await browser.request('GET', '/session')).body.data.two_factor).to.equal(true)
  })

  it('end all other sessions when they are set up or removed', async () => {
    const username = `user${++count}`
    const browser = await adminBrowser(gateway, username)
    const other = new Browser(gateway)
    await other.login(username, password)
    const { body } = await browser.request('POST', '/account/totp')
    const code = codeOf(body.data.secret as string, -1)
    await browser.request('POST', '/account/totp/confirm', { body: { code } })
    expect(await other.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
    await browser.readCsrf()
    const { token } = browser
    expect((await browser.request('DELETE', '/account/totp')).status).to.equal(200)
    expect((await browser.request('GET', '/session')).body.data.two_factor).to.equal(false)
    other.cookies.set('berth', token)
    expect(await other.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
  })

  it('accept each code only once, and reject codes older than the last accepted code', async () => {
    const { username, secret } = await enrolled()
    const next = codeOf(secret, 1)
    expect(await give(await halfway(username), { code: next })).to.deep.equal([200, undefined])
    expect(await give(await halfway(username), { code: next })).to.deep.equal([401, 'login_failed'])
    expect(await give(await halfway(username), { code: codeOf(secret) })).to.deep.equal([401, 'login_failed'])
  })

  it('let only one of two concurrent logins use the same code', async () => {
    const { username, secret } = await enrolled()
    const two = [await halfway(username), await halfway(username)]
    const code = codeOf(secret)
    const answers = await Promise.all(two.map((browser) => give(browser, { code })))
    expect(answers.map(([status]) => status).sort()).to.deep.equal([200, 401])
  })

  it('accept each recovery code only once, in upper or lower case, with blanks or hyphens', async () => {
    const { username, codes } = await enrolled()
    const typed = codes[0]!.toUpperCase().replaceAll('-', ' ')
    const browser = await halfway(username)
    expect(await give(browser, { recovery_code: typed })).to.deep.equal([200, undefined])
    expect((await browser.request('GET', '/session')).body.data.recovery_codes_left).to.equal(9)
    expect(await give(await halfway(username), { recovery_code: codes[0] })).to.deep.equal([401, 'login_failed'])
  })

  it('refuse the previous recovery codes after new recovery codes were created', async () => {
    const { username, browser, codes } = await enrolled()
    const { status, body, text } = await browser.request('POST', '/account/totp/recovery-codes')
    expect(status, text).to.equal(200)
    const renewed = body.data.recovery_codes as string[]
    expect(new Set([...codes, ...renewed]).size).to.equal(20)
    expect((await browser.request('GET', '/session')).body.data.recovery_codes_left).to.equal(10)
    const half = await halfway(username)
    expect(await give(half, { recovery_code: codes[0] })).to.deep.equal([401, 'login_failed'])
    expect(await give(half, { recovery_code: renewed[0] })).to.deep.equal([200, undefined])
  })

  it('allow new recovery codes only if a second factor is set up and the password was confirmed recently', async () => {
    const ask = (browser: Browser) => browser.answerTo('POST', '/account/totp/recovery-codes')
    expect(await ask(await adminBrowser(gateway, `user${++count}`))).to.deep.equal([409, 'invalid_state'])
    const { browser } = await enrolled()
    const digest = digestToken(browser.token)
    const name = gateway.store.key('session', digest)
    const record = JSON.parse((await gateway.store.client.get(name))!) as object
    await gateway.store.client.set(name, JSON.stringify({ ...record, confirmedAtMs: 1 }), {
      expiration: 'KEEPTTL',
    })
    await waitFor(async () => (await ask(browser))[1] === 'confirmation_required', { what: 'refused' })
  })

  it('require the password again after five wrong codes', async () => {
    const { username, secret } = await enrolled()
    const browser = await halfway(username)
    const { token } = browser
    for (let n = 0; n < 4; n++) expect(await give(browser, { code: '000000' })).to.deep.equal([401, 'login_failed'])
    await give(browser, { code: '000000' })
    browser.cookies.set('berth', token)
    const [status, code] = await give(browser, { code: codeOf(secret) })
    expect([status, code]).to.be.deep.oneOf([[401, 'login_expired']])
  })

  it('do not complete a login if the password has changed since the first step of the login', async () => {
    const { username, browser, secret } = await enrolled()
    const half = await halfway(username)
    const body = { current_password: password, password: 'staple paper clip 7' }
    expect((await browser.request('POST', '/account/password', { body })).status).to.equal(200)
    expect(await give(half, { code: codeOf(secret) })).to.deep.equal([401, 'login_expired'])
  })

  for (const [what, body, code] of [
    ['a login without a code', {}, 'missing_field'],
    ['a code of letters', { code: 'abcdef' }, 'login_failed'],
    ['a code with too many digits', { code: '1234567' }, 'login_failed'],
    ['an empty recovery code', { recovery_code: '-' }, 'login_failed'],
  ] as const)
    it(`refuse ${what}`, async () => {
      const { username } = await enrolled()
      expect((await give(await halfway(username), body))[1]).to.equal(code)
    })

  it('refuse a code without a password', async () => {
    expect(await give(new Browser(gateway), { code: '123456' })).to.deep.equal([401, 'login_expired'])
  })

  it('must be removed before another second factor is set up', async () => {
    const { browser } = await enrolled()
    expect(await browser.answerTo('POST', '/account/totp')).to.deep.equal([409, 'invalid_state'])
  })

  it('are not set up with a wrong code', async () => {
    const browser = await adminBrowser(gateway, `user${++count}`)
    const confirm = (code: string) => browser.answerTo('POST', '/account/totp/confirm', { body: { code } })
    expect(await confirm('123456')).to.deep.equal([409, 'invalid_state'])
    await browser.request('POST', '/account/totp')
    expect(await confirm('00000x')).to.deep.equal([400, 'invalid_field'])
    expect((await browser.request('GET', '/session')).body.data.two_factor).to.equal(false)
  })

  it('must be set up before any other request if they are required', async () => {
    const browser = await adminBrowser(gateway, `user${++count}`)
    const rule = (require_2fa: string) => gateway.request('PUT', '/login-settings', { body: { require_2fa } })
    expect((await rule('admins')).status).to.equal(200)
    try {
      for (const path of ['/containers', '/language', '/api-keys'])
        expect(await browser.answerTo('GET', path), path).to.deep.equal([403, 'two_factor_required'])
      expect((await browser.request('GET', '/session')).body.data.two_factor_required).to.equal(true)
      const { body } = await browser.request('POST', '/account/totp')
      const code = codeOf(body.data.secret as string)
      await browser.request('POST', '/account/totp/confirm', { body: { code } })
      expect((await browser.request('GET', '/containers')).status).to.equal(200)
      expect((await gateway.request('GET', '/containers')).status, 'a key').to.equal(200)
    } finally {
      await rule('none')
    }
  })

  it('store nothing for an unknown login token', async () => {
    const browser = new Browser(gateway, { 'x-forwarded-for': `198.51.100.${++count}` })
    const token = 'A'.repeat(43)
    browser.cookies.set('berth', token)
    expect(await give(browser, { code: '123456' })).to.deep.equal([401, 'login_expired'])
    const name = gateway.store.key('login-tries', digestToken(token))
    expect(await gateway.store.run('look', (client) => client.exists(name))).to.equal(0)
  })
})
