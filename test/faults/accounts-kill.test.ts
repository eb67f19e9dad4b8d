import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { generateSync } from 'otplib'
import type { Browser } from '../support/gateway/browser.js'
import { KilledGateway, kills, makePassword, type Lane } from '../support/gateway/killed-gateway.js'
import { expectMutationsAsked } from '../support/gateway/killed-mutations.js'

const program = resolve(import.meta.dirname, '../../dist/gateway/main.js')

/**
 * Kills a real gateway and its Redis while users change their accounts and administrators change settings. Acknowledged
 * changes must be stored. Interrupted changes may be stored or not, and the audit log must match.
 */
describe(`the gateway and its Redis, killed ${kills} times while accounts and settings change`, function () {
  let lab: KilledGateway

  before(async () => {
    lab = await KilledGateway.start('btest-accounts-kill')
  })
  after(() => lab?.close())

  /** Changes the password of an administrator in each round. */
  async function* passwords(): AsyncGenerator<void> {
    let known = [await lab.makeAdmin('ada')]
    for (;;) {
      const { browser, password } = await lab.enter('ada', known)
      const old = browser.token
      const next = makePassword()
      const body = { current_password: password, password: next }
      const reply = await lab.attempt(() => browser.request('POST', '/account/password', { body }))
      known = reply ? [reply.status === 200 ? next : password] : [password, next]
      if (reply) {
        expect(reply.status, reply.text).to.equal(200)
        const thief = lab.someone()
        thief.cookies.set('berth', old)
        const { status } = await lab.insist(() => thief.request('GET', '/session'))
        expect(status, 'a session from before the change').to.equal(401)
      }
      yield
    }
  }

  /** @returns recovery codes; `undefined` after an interrupted setup, which leaves no second factor */
  async function setUpFactor(browser: Browser, password: string): Promise<string[] | undefined> {
    const begun = await lab.attempt(() => browser.request('POST', '/account/totp'))
    if (begun?.status !== 200) return undefined
    const secret = String(begun.body.data.secret)
    const code = generateSync({ secret, epoch: Math.floor(Date.now() / 1000) })
    const set = await lab.attempt(() => browser.request('POST', '/account/totp/confirm', { body: { code } }))
    if (set?.status === 200) return set.body.data.recovery_codes as string[]
    // The setup may have succeeded, although no recovery codes arrived. Then `recoverByCommand` removes the factor.
    const body = { username: 'bob', password }
    const again = await lab.insist(() => lab.someone().request('POST', '/login', { body }))
    if (again.status === 202) await recoverByCommand('bob', password)
    return undefined
  }

  /** Sets up a second factor, renews and uses its recovery codes, and removes it. */
  async function* secondFactors(): AsyncGenerator<void> {
    const password = await lab.makeAdmin('bob')
    const hasFactor = async (browser: Browser): Promise<boolean> =>
      (await lab.insist(() => browser.request('GET', '/session'))).body.data.two_factor === true
    const recover = async (codes: readonly string[]): Promise<Browser> => {
      for (const code of codes) {
        const { browser, wantsCode } = await lab.enter('bob', [password])
        expect(wantsCode, 'a code is required').to.equal(true)
        const reply = await lab.attempt(() => browser.request('POST', '/login/otp', { body: { recovery_code: code } }))
        if (reply?.status !== 200) continue
        await lab.readCsrf(browser)
        return browser
      }
      throw new Error('no acknowledged recovery code works')
    }
    for (;;) {
      let { browser } = await lab.enter('bob', [password])
      const codes = await setUpFactor(browser, password)
      if (!codes) continue
      browser = await recover(codes)
      const path = '/account/totp/recovery-codes'
      const renewed = await lab.attempt(() => browser.request('POST', path))
      if (renewed?.status === 200) browser = await recover(renewed.body.data.recovery_codes as string[])
      else if (!renewed) expect(await hasFactor(browser), 'still two factors').to.equal(true)
      const removed = await lab.attempt(() => browser.request('DELETE', '/account/totp'))
      const { wantsCode } = await lab.enter('bob', [password])
      if (removed?.status === 200) expect(wantsCode, 'removed').to.equal(false)
      else if (wantsCode) await recoverByCommand('bob', password)
      yield
    }
  }

  /** Recovers an account with a link from the command on the host. Repeats interrupted requests. */
  async function recoverByCommand(username: string, password: string): Promise<void> {
    const args = [program, 'admin', 'link', username, '--config', join(lab.gateway.directory, 'gateway.yaml')]
    for (;;) {
      lab.checkGoesOn()
      const output = await promisify(execFile)(process.execPath, args).catch(() => undefined)
      const token = /#(\S+)/.exec(output?.stdout ?? '')?.[1]
      if (token === undefined) continue
      const reply = await lab.attempt(() => lab.someone().request('POST', '/setup', { body: { token, password } }))
      if (reply) expect(reply.status, 'the link works').to.equal(201)
      if (reply) return
    }
  }

  /** Creates an invitation in each round and redeems it twice. Only one attempt may succeed. */
  async function* links(): AsyncGenerator<void> {
    for (let n = 0; ; n++) {
      const username = `guest-${n}`
      const invited = await lab.attempt(() => lab.asAdmin('POST', '/admins', { body: { username } }))
      if (invited?.status !== 201) continue
      const token = String(invited.body.data.setup_token)
      const password = makePassword()
      const redeem = () => lab.someone().request('POST', '/setup', { body: { token, password } })
      const first = await lab.attempt(redeem)
      const second = await lab.insist(redeem)
      if (first) expect([first.status, second.status], 'valid once').to.deep.equal([201, 404])
      else expect(second.status, 'used, or still valid').to.be.oneOf([201, 404])
      await lab.enter(username, [password])
      yield
    }
  }

  /** Logs in and out in each round. */
  async function* sessions(): AsyncGenerator<void> {
    const password = await lab.makeAdmin('carol')
    for (;;) {
      const { browser } = await lab.enter('carol', [password])
      expect((await lab.insist(() => browser.request('GET', '/session'))).status, 'logged in').to.equal(200)
      const { token } = browser
      const ended = await lab.attempt(() => browser.request('POST', '/logout'))
      browser.cookies.set('berth', token)
      const { status } = await lab.insist(() => browser.request('GET', '/session'))
      if (ended) expect([ended.status, status], 'logged out').to.deep.equal([200, 401])
      yield
    }
  }

  it('keep all acknowledged changes, and the audit log lists exactly these changes', async () => {
    await lab.run([
      ...([passwords, secondFactors, links, sessions] satisfies Lane[]),
      lab.setting({
        action: 'access_policy.update',
        path: '/access-policy',
        make: (n) => {
          const text = `10.9.${n >> 8}.${n & 255}`
          return { body: { enabled: false, allowed_sources: [text] }, text }
        },
        read: (data) => String((data['allowed_sources'] as string[])[0] ?? ''),
      }),
      lab.setting({
        action: 'webssh_origins.update',
        path: '/webssh-origins',
        make: (n) => ({ body: { origins: [`https://p${n}.example`] }, text: `https://p${n}.example` }),
        read: (data) => String((data['origins'] as string[])[0] ?? ''),
      }),
      lab.setting({
        action: 'public_url.update',
        path: '/public-url',
        make: (n) => ({ body: { public_url: `https://p${n}.example` }, text: `https://p${n}.example` }),
        read: (data) => String(data['public_url']),
      }),
      lab.setting({
        action: 'branding.update',
        path: '/branding',
        make: (n) => ({ body: { name: `Provider ${n}` }, text: `name Provider ${n}` }),
        read: (data) => `name ${String(data['name'])}`,
      }),
      lab.setting({
        action: 'language.update',
        path: '/language',
        make: (n) => ({ body: { language: n % 2 ? 'zh' : 'en' }, text: n % 2 ? 'zh' : 'en' }),
        read: (data) => String(data['language']),
      }),
      lab.setting({
        action: 'deletion_settings.update',
        path: '/deletion-settings',
        make: (n) => ({ body: { undo_delete_hours: n % 720 }, text: `undo_delete_hours ${n % 720}` }),
        read: (data) => `undo_delete_hours ${String(data['undo_delete_hours'])}`,
      }),
      lab.setting({
        action: 'port_settings.update',
        path: '/port-settings',
        make: (n) => ({ body: { unique_ports: n % 2 === 1 }, text: `unique_ports ${n % 2 === 1}` }),
        read: (data) => `unique_ports ${String(data['unique_ports'])}`,
      }),
      lab.setting({
        action: 'security.settings',
        path: '/security/settings',
        make: (n) => ({ body: { auto_shutdown: n % 2 === 1 }, text: `auto_shutdown ${n % 2 === 1}` }),
        read: (data) => `auto_shutdown ${String(data['auto_shutdown'])}`,
      }),
    ])
    expectMutationsAsked('accounts-kill', lab)
  })
})
