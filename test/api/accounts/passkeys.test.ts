import 'reflect-metadata'
import { CRLDistributionPointsExtension, X509CertificateGenerator } from '@peculiar/x509'
import { expect } from 'chai'
import { webcrypto } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { generateSync } from 'otplib'
import type { Body } from '../../support/body.js'
import { adminBrowser, Browser, password } from '../../support/gateway/browser.js'
import { forgetConfirmation } from '../../support/gateway/forget-confirmation.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { SoftwareAuthenticator } from '../../support/gateway/software-authenticator.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const origin = 'https://panel.example.com'

describe('passkeys', () => {
  let gateway: TestGateway
  let count = 0

  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
    await setUrl(origin)
  })
  after(() => gateway.close())

  const setUrl = async (url: string): Promise<void> => {
    const { status, text } = await gateway.request('PUT', '/public-url', { body: { public_url: url } })
    expect(status, text).to.equal(200)
  }
  const stranger = () => new Browser(gateway, { 'x-forwarded-for': `198.51.100.${++count}` })
  const optionsFor = async (browser: Browser, path: string): Promise<Body> => {
    const { status, body, text } = await browser.request('POST', path)
    expect(status, text).to.equal(200)
    return body.data
  }
  const add = (browser: Browser, name: string, credential: object) =>
    browser.request('POST', '/account/passkeys', { body: { name, credential } })

  /** Creates an administrator with a passkey. */
  async function enrolled() {
    const username = `key${++count}`
    const browser = await adminBrowser(gateway, username)
    const device = new SoftwareAuthenticator(origin)
    const created = device.create(await optionsFor(browser, '/account/passkeys/begin'))
    const { status, body, text } = await add(browser, 'Laptop', created)
    expect(status, text).to.equal(201)
    await browser.readCsrf()
    return {
      username,
      browser,
      device,
      id: body.data.passkey.id as string,
      codes: body.data.recovery_codes as string[],
    }
  }
  /** @returns a browser that has sent the password but not yet the second factor */
  async function halfway(username: string) {
    const browser = stranger()
    const { status, body } = await browser.login(username, password)
    expect([status, body.data]).to.deep.equal([202, { otp: true, authenticator_app: false, passkey: true }])
    return browser
  }
  const second = async (browser: Browser, device: SoftwareAuthenticator, changes = {}) => {
    const credential = device.sign(await optionsFor(browser, '/login/otp/passkey/begin'), changes)
    return browser.answerTo('POST', '/login/otp/passkey', { body: { credential } })
  }
  const logIn = (browser: Browser, credential: object) =>
    browser.answerTo('POST', '/login/passkey', { body: { credential } })
  const session = async (browser: Browser): Promise<Body> => (await browser.request('GET', '/session')).body.data
  const ok = [200, undefined]
  const failed = [401, 'login_failed']

  it('are listed, renamed and removed by their owner, and each change is in the audit log', async () => {
    const { username, browser, id } = await enrolled()
    expect((await browser.request('PATCH', `/account/passkeys/${id}`, { body: { name: 'Phone' } })).status).to.equal(
      200,
    )
    const [row] = (await browser.request('GET', '/account/passkeys')).body.data as { name: string; last_used: string }[]
    expect(row).to.include({ name: 'Phone', last_used: '' })
    const other = await adminBrowser(gateway, `other${++count}`)
    expect(await other.answerTo('DELETE', `/account/passkeys/${id}`)).to.deep.equal([404, 'not_found'])
    expect(await browser.answerTo('DELETE', `/account/passkeys/${id}`)).to.deep.equal(ok)
    expect(await session(browser)).to.include({ two_factor: false, recovery_codes_left: 0 })
    expect((await stranger().login(username, password)).status).to.equal(200)
    const logs = (await gateway.request('GET', `/audit-logs?user=${username}`)).body.data as { action: string }[]
    const actions = logs.map(({ action }) => action).filter((action) => action.includes('passkey'))
    expect(actions).to.include.members(['begin', 'add', 'rename', 'remove'].map((what) => `account.passkey_${what}`))
  })

  it('are a second factor after the password, like a recovery code of the account', async () => {
    const { username, device, codes } = await enrolled()
    expect(codes).to.have.length(10)
    const browser = await halfway(username)
    expect(await browser.answerTo('GET', '/session'), 'before the passkey').to.deep.equal([401, 'unauthorized'])
    expect(await second(browser, device, { verified: false })).to.deep.equal(ok)
    expect(await session(browser)).to.include({ two_factor: true, authenticator_app: false, recovery_codes_left: 10 })
    const lost = await halfway(username)
    expect(await lost.answerTo('POST', '/login/otp', { body: { recovery_code: codes[0] } })).to.deep.equal(ok)
    expect((await session(lost)).recovery_codes_left).to.equal(9)
  })

  it('log in without a password if the device has verified the user', async () => {
    const { username, device } = await enrolled()
    const browser = stranger()
    const options = await optionsFor(browser, '/login/passkey/begin')
    expect(options).to.include({ rpId: 'panel.example.com', userVerification: 'required' })
    expect(await logIn(browser, device.sign(options))).to.deep.equal(ok)
    expect((await session(browser)).username).to.equal(username)
    const next = await optionsFor(browser, '/login/passkey/begin')
    expect(await logIn(stranger(), device.sign(next, { verified: false }))).to.deep.equal(failed)
    const logins = (await gateway.request('GET', `/login-logs?username=${username}`)).body.data as {
      method: string
      reason: string
    }[]
    const reasons = logins.filter(({ method }) => method === 'passkey').map(({ reason }) => reason)
    expect(reasons.sort()).to.deep.equal(['', 'wrong_passkey'])
  })

  it('confirm sensitive changes in place of the password, if the device has verified the user', async () => {
    const { username, browser, device } = await enrolled()
    const path = '/account/confirm/passkey'
    const confirm = async (changes = {}, from = `${path}/begin`) => {
      const credential = device.sign(await optionsFor(browser, from), changes)
      return browser.answerTo('POST', path, { body: { credential } })
    }
    const remove = () => browser.answerTo('DELETE', '/account/totp')
    expect(await session(browser)).to.include({ passkey: true })
    await forgetConfirmation(gateway, browser.token)
    expect(await remove()).to.deep.equal([403, 'confirmation_required'])
    const wrong = [403, 'confirmation_failed']
    expect(await confirm({ verified: false }), 'without a PIN').to.deep.equal(wrong)
    expect(await confirm({ origin: 'https://evil.example' })).to.deep.equal(wrong)
    expect(await confirm({}, '/login/passkey/begin'), 'a challenge of a login').to.deep.equal(wrong)
    expect(await remove(), 'after refusals').to.deep.equal([403, 'confirmation_required'])
    expect(await confirm()).to.deep.equal(ok)
    expect(await remove(), 'no app is set up').to.deep.equal([409, 'invalid_state'])
    const logs = (await gateway.request('GET', `/audit-logs?user=${username}&action=session.confirm`)).body
      .data as Body[]
    expect(logs.map(({ detail, success }): unknown[] => [detail, success])).to.deep.include(['passkey', true])
    const other = await adminBrowser(gateway, `other${++count}`)
    expect((await session(other)).passkey).to.equal(false)
    expect(await other.answerTo('POST', `${path}/begin`)).to.deep.equal([409, 'invalid_state'])
  })

  it('are refused with a wrong, used or foreign challenge', async () => {
    const [{ username, device }, other] = [await enrolled(), await enrolled()]
    const options = await optionsFor(stranger(), '/login/passkey/begin')
    expect(await logIn(stranger(), device.sign(options, { challenge: 'A'.repeat(43) }))).to.deep.equal(failed)
    const signed = device.sign(options)
    expect(await logIn(stranger(), signed)).to.deep.equal(ok)
    expect(await logIn(stranger(), signed), 'replayed').to.deep.equal(failed)
    const theirs = await optionsFor(await halfway(other.username), '/login/otp/passkey/begin')
    const browser = await halfway(username)
    const credential = device.sign(theirs)
    const answer = await browser.answerTo('POST', '/login/otp/passkey', { body: { credential } })
    expect(answer, 'a challenge of another account').to.deep.equal(failed)
    const again = await optionsFor(stranger(), '/login/passkey/begin')
    const mixed = await (
      await halfway(username)
    ).answerTo('POST', '/login/otp/passkey', {
      body: { credential: device.sign(again) },
    })
    expect(mixed, 'a challenge of another purpose').to.deep.equal(failed)
  })

  it('are refused for another origin, another account, and with a counter that does not grow', async () => {
    const [{ username, device }, other] = [await enrolled(), await enrolled()]
    const phished = { origin: 'https://panel.example.com.evil.example' }
    const options = () => optionsFor(stranger(), '/login/passkey/begin')
    expect(await logIn(stranger(), device.sign(await options(), phished))).to.deep.equal(failed)
    expect(await second(await halfway(username), other.device), 'the passkey of another').to.deep.equal(failed)
    expect(await logIn(stranger(), device.sign(await options(), { counter: 5 }))).to.deep.equal(ok)
    expect(await logIn(stranger(), device.sign(await options(), { counter: 5 })), 'a copy').to.deep.equal(failed)
    await setUrl('https://other.example.com')
    expect(await logIn(stranger(), device.sign(await options())), 'another relying party').to.deep.equal(failed)
    await setUrl(origin)
  })

  it('can only be added with a challenge of the same account and origin, and only once', async () => {
    const { browser, device } = await enrolled()
    const begin = () => optionsFor(browser, '/account/passkeys/begin')
    const answer = async (name: string, credential: object): Promise<(number | string | undefined)[]> => {
      const { status, body } = await add(browser, name, credential)
      return [status, body.code as string | undefined]
    }
    const invalid = [400, 'invalid_field']
    const key = () => new SoftwareAuthenticator(origin)
    expect(await answer('Key', key().create(await begin(), { origin: 'https://evil.example' }))).to.deep.equal(invalid)
    const other = await adminBrowser(gateway, `other${++count}`)
    const theirs = await optionsFor(other, '/account/passkeys/begin')
    expect(await answer('Key', key().create(theirs)), 'a challenge of another account').to.deep.equal(invalid)
    expect(await answer('Laptop', key().create(await begin()))).to.deep.equal([409, 'name_conflict'])
    expect(await answer('Key', device.create(await begin())), 'the same passkey').to.deep.equal([409, 'name_conflict'])
    expect((await begin()).excludeCredentials).to.have.length(1)
  })

  it('of a sub-user are removed when an administrator sets a new password', async () => {
    const username = `customer${++count}`
    const { name } = await gateway.fleet.addGuest()
    const made = await new SubUserCalls(gateway).make({ username, container_name: name })
    const browser = new Browser(gateway)
    expect((await browser.login(username, made.password)).status).to.equal(200)
    await browser.readCsrf()
    const device = new SoftwareAuthenticator(origin)
    const created = device.create(await optionsFor(browser, '/account/passkeys/begin'))
    expect((await add(browser, 'Laptop', created)).status).to.equal(201)
    const rotated = await gateway.request('POST', `/sub-users/${made.id}/rotate-password`)
    const options = await optionsFor(stranger(), '/login/passkey/begin')
    expect(await logIn(stranger(), device.sign(options))).to.deep.equal(failed)
    const { password: next } = rotated.body.data as { password: string }
    expect((await stranger().login(username, next)).status).to.equal(200)
  })

  it('do not make the gateway send requests to an address in their certificate', async () => {
    let requests = 0
    const server = createServer((_request, response) => response.end(String(requests++))).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/list`
    const { browser } = await enrolled()
    const options = await optionsFor(browser, '/account/passkeys/begin')
    const credential = new SoftwareAuthenticator(origin).create(options, { certificate: await certificateWith(url) })
    const { status, body } = await add(browser, 'Key', credential)
    server.close()
    expect([status, body.code, requests]).to.deep.equal([400, 'invalid_field', 0])
  })

  it('keep the recovery codes when the authenticator app is set up and removed', async () => {
    const { username, browser, device } = await enrolled()
    const { secret } = (await browser.request('POST', '/account/totp')).body.data as { secret: string }
    const code = generateSync({ secret, epoch: Math.floor(Date.now() / 1000) - 30 })
    expect(await browser.answerTo('POST', '/account/totp/confirm', { body: { code } })).to.deep.equal(ok)
    await browser.readCsrf()
    expect(await session(browser)).to.include({ authenticator_app: true, recovery_codes_left: 10 })
    expect(await browser.answerTo('DELETE', '/account/totp')).to.deep.equal(ok)
    expect(await session(browser)).to.include({ two_factor: true, authenticator_app: false, recovery_codes_left: 10 })
    expect(await second(await halfway(username), device)).to.deep.equal(ok)
  })

  it('are limited to a few attempts, like codes', async () => {
    const { username, device } = await enrolled()
    const browser = await halfway(username)
    const answers: unknown[] = []
    for (let at = 0; at < 5; at++) answers.push(await second(browser, device, { origin: 'https://evil.example' }))
    expect(answers).to.deep.include(failed)
    const again = new Browser(gateway, { 'x-forwarded-for': `198.51.100.${count}` })
    await again.login(username, password)
    expect(await second(again, device)).to.deep.equal([429, 'rate_limited'])
  })

  it('are not available if the gateway is reached at an IP address and no public URL is set', async () => {
    await setUrl('')
    const answer = await stranger().answerTo('POST', '/login/passkey/begin')
    await setUrl(origin)
    expect(answer).to.deep.equal([409, 'passkeys_unavailable'])
  })
})

/** Makes a certificate (DER) that names the address of a revocation list. */
async function certificateWith(listUrl: string): Promise<Buffer> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const extensions = [new CRLDistributionPointsExtension([listUrl])]
  const fields = { name: 'CN=btest', keys, signingAlgorithm: algorithm, extensions }
  const { rawData } = await X509CertificateGenerator.createSelfSigned(fields, webcrypto)
  return Buffer.from(rawData)
}
