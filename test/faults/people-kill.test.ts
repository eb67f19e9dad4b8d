import { expect } from 'chai'
import type { Browser } from '../support/gateway/browser.js'
import { KilledGateway, kills, type Lane } from '../support/gateway/killed-gateway.js'
import { expectMutationsAsked } from '../support/gateway/killed-mutations.js'
import { SoftwareAuthenticator } from '../support/gateway/software-authenticator.js'
import { waitFor } from '../support/wait.js'

interface Customer {
  readonly id: string
  readonly username: string
  readonly password: string
}

const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM'

/**
 * Kills a real gateway and its Redis during changes that accounts-kill.test.ts does not cover: administrators are
 * disabled and removed, customers log in, end their sessions and are removed, and all other settings change.
 */
describe(`the gateway and its Redis, killed ${kills} times while accounts are added and removed`, function () {
  let lab: KilledGateway

  before(async () => {
    lab = await KilledGateway.start('btest-people-kill')
    await lab.makeAdmin('stays') // the last enabled administrator cannot be disabled or removed
    lab.agent.addGuest({ name: 'guest-0', id: 1 })
    await waitFor(async () => (await lab.asAdmin('GET', '/containers/guest-0')).status === 200, {
      what: 'the guest is there',
    })
  })
  after(() => lab?.close())

  const canEnter = async (path: '/login' | '/sub-user/login', body: object): Promise<boolean> => {
    const { status, text } = await lab.insist(() => lab.someone().request('POST', path, { body }))
    expect(status, text).to.be.oneOf([200, 202, 401])
    return status < 300
  }

  /** Creates, disables, enables and removes an administrator in each round. */
  async function* administrators(): AsyncGenerator<void> {
    for (let n = 0; ; n++) {
      const username = `dora-${n}`
      const password = await lab.makeAdmin(username)
      const enters = () => canEnter('/login', { username, password })
      const path = `/admins/${await idOf(username)}`
      for (const disabled of [true, false]) {
        const before = await enters()
        const reply = await lab.attempt(() => lab.asAdmin('PATCH', path, { body: { disabled } }))
        if (reply) expect(reply.status, reply.text).to.equal(200)
        const now = await enters()
        if (reply) expect(now, `${username}, disabled: ${disabled}`).to.equal(!disabled)
        else expect([before, !disabled], `${username}, cut off`).to.include(now)
      }
      const removed = await lab.attempt(() => lab.asAdmin('DELETE', path))
      const again = await lab.insist(() => lab.asAdmin('DELETE', path))
      if (removed) expect([removed.status, again.status], 'removed once').to.deep.equal([200, 404])
      expect(await enters(), `${username}, removed`).to.equal(false)
      yield
    }
  }

  async function idOf(username: string): Promise<number> {
    const { body } = await lab.insist(() => lab.asAdmin('GET', '/admins'))
    return (body.data as { id: number; username: string }[]).find((row) => row.username === username)!.id
  }

  /** Repeats the request until it is acknowledged. A repetition returns the existing account without its password. */
  async function makeCustomer(username: string): Promise<Customer> {
    for (;;) {
      const body = { container_name: 'guest-0', username }
      const reply = await lab.attempt(() => lab.asAdmin('POST', '/sub-user/create', { body }))
      const made = reply?.body.data as (Customer & { password?: string }) | undefined
      if (reply?.status === 200 && made?.password) return made
      if (reply?.status === 200) return rotated(made!)
      lab.checkGoesOn()
    }
  }

  /** Rotates the password of an account that an interrupted request created. */
  async function rotated({ id, username }: Customer): Promise<Customer> {
    const path = `/sub-users/${id}/rotate-password`
    for (;;) {
      const reply = await lab.attempt(() => lab.asAdmin('POST', path))
      if (reply?.status === 200) return { id, username, password: String(reply.body.data.password) }
      lab.checkGoesOn()
    }
  }

  /** Repeats a login until it succeeds. Interrupted logins may leave additional sessions. */
  async function session({ username, password }: Customer): Promise<Browser> {
    const browser = lab.someone()
    const body = { username, password }
    const { status, text } = await lab.insist(() => browser.request('POST', '/sub-user/login', { body }))
    expect(status, text).to.equal(200)
    await lab.readCsrf(browser)
    return browser
  }

  const statusOf = async (browser: Browser): Promise<number> =>
    (await lab.insist(() => browser.request('GET', '/session'))).status

  /** Ends one other session, then all other sessions of a customer. The session that sends the requests stays valid. */
  async function* sessions(): AsyncGenerator<void> {
    const customer = await makeCustomer('with-sessions')
    for (;;) {
      const [own, one, other] = [await session(customer), await session(customer), await session(customer)]
      const path = `/account/sessions/${await ownId(one)}`
      const ended = await lab.attempt(() => own.request('DELETE', path))
      const { token } = one
      const after = await statusOf(one)
      if (ended) expect([ended.status, after], 'one is ended').to.deep.equal([200, 401])
      const all = await lab.attempt(() => own.request('DELETE', '/account/sessions'))
      one.cookies.set('berth', token)
      const left = [await statusOf(one), await statusOf(other)]
      if (all) expect([all.status, ...left], 'all others are ended').to.deep.equal([200, 401, 401])
      const proof = { body: { password: customer.password } }
      const confirmed = await lab.attempt(() => own.request('POST', '/account/confirm', proof))
      if (confirmed) expect(confirmed.status, confirmed.text).to.equal(200)
      expect(await statusOf(own), 'its own continues').to.equal(200)
      yield
    }
  }

  /** Stores an SSH key in each round, and deletes it. */
  async function* sshKeys(): AsyncGenerator<void> {
    const browser = await session(await makeCustomer('with-keys'))
    const path = '/account/ssh-keys'
    const list = async (): Promise<{ id: number; name: string }[]> =>
      (await lab.insist(() => browser.request('GET', path))).body.data as { id: number; name: string }[]
    for (let n = 0; ; n++) {
      const body = { name: `key-${n}`, public_key: publicKey }
      await lab.attempt(() => browser.request('POST', path, { body }))
      const stored = await lab.insist(() => browser.request('POST', path, { body }))
      expect(stored.status, stored.text).to.equal(201)
      const keys = await list()
      expect(keys.map(({ name }) => name)).to.deep.equal([body.name])
      const own = `${path}/${keys[0]!.id}`
      const removed = await lab.attempt(() => browser.request('DELETE', own))
      const again = await lab.insist(() => browser.request('DELETE', own))
      if (removed) expect([removed.status, again.status], 'deleted once').to.deep.equal([200, 404])
      expect(await list()).to.deep.equal([])
      yield
    }
  }

  /** Adds a passkey in each round, logs in with it, confirms with it, renames it and removes it. */
  async function* passkeys(): AsyncGenerator<void> {
    const origin = 'https://panel.example.com'
    await lab.insist(() => lab.asAdmin('PUT', '/public-url', { body: { public_url: origin } }))
    for (let n = 0; ; n++) {
      const customer = await makeCustomer(`with-passkey-${n}`)
      const owner = await session(customer)
      const device = new SoftwareAuthenticator(origin)
      const begun = await lab.insist(() => owner.request('POST', '/account/passkeys/begin'))
      const created = { name: 'Key', credential: device.create(begun.body.data) }
      const added = await lab.attempt(() => owner.request('POST', '/account/passkeys', { body: created }))
      if (added) expect(added.status, added.text).to.equal(201)
      const browser = lab.someone()
      const [isStored] = await signIn(browser, '/login/passkey', device)
      if (added) expect(isStored, 'an acknowledged passkey').to.equal(true)
      if (isStored) await changePasskey(browser, customer, device)
      yield
    }
  }

  /** Repeats a login or confirmation with a passkey until it is answered. @returns true if it succeeded */
  async function signIn(browser: Browser, path: string, device: SoftwareAuthenticator): Promise<[boolean]> {
    for (;;) {
      const begun = await lab.insist(() => browser.request('POST', `${path}/begin`))
      expect(begun.status, begun.text).to.equal(200)
      const credential = device.sign(begun.body.data)
      const reply = await lab.attempt(() => browser.request('POST', path, { body: { credential } }))
      if (reply) return [reply.status === 200]
      lab.checkGoesOn()
    }
  }

  async function changePasskey(browser: Browser, { username, password }: Customer, device: SoftwareAuthenticator) {
    await lab.readCsrf(browser)
    const list = async (): Promise<{ id: string; name: string }[]> =>
      (await lab.insist(() => browser.request('GET', '/account/passkeys'))).body.data as { id: string; name: string }[]
    const path = `/account/passkeys/${(await list())[0]!.id}`
    const renamed = await lab.attempt(() => browser.request('PATCH', path, { body: { name: 'Other' } }))
    if (renamed) expect((await list())[0]!.name).to.equal('Other')
    const second = lab.someone()
    const step = await lab.insist(() => second.request('POST', '/login', { body: { username, password } }))
    expect(step.status, step.text).to.equal(202)
    await signIn(second, '/login/otp/passkey', device)
    await signIn(browser, '/account/confirm/passkey', device)
    const removed = await lab.attempt(() => browser.request('DELETE', path))
    if (removed) expect([removed.status, (await list()).length]).to.deep.equal([200, 0])
  }

  /** Changes the time zone of a customer in each round. The session continues. */
  async function* timeZones(): AsyncGenerator<void> {
    const browser = await session(await makeCustomer('with-zone'))
    const read = async (): Promise<string> =>
      String((await lab.insist(() => browser.request('GET', '/session'))).body.data.display_time_zone)
    for (let n = 0; ; n++) {
      const before = await read()
      const zone = n % 2 ? 'Europe/Berlin' : 'Asia/Shanghai'
      const body = { time_zone: zone }
      const reply = await lab.attempt(() => browser.request('PUT', '/account/time-zone', { body }))
      if (reply) expect(reply.status, reply.text).to.equal(200)
      expect(reply ? [zone] : [before, zone], 'the time zone').to.include(await read())
      yield
    }
  }

  async function ownId(browser: Browser): Promise<string> {
    const { body } = await lab.insist(() => browser.request('GET', '/account/sessions'))
    return (body.data as { id: string; current: boolean }[]).find(({ current }) => current)!.id
  }

  /** Creates a customer with a session in each round, and removes both. */
  async function* customers(): AsyncGenerator<void> {
    for (let n = 0; ; n++) {
      const { id, username, password } = await makeCustomer(`leaves-${n}`)
      const browser = await session({ id, username, password })
      const path = `/sub-users/${id}`
      const removed = await lab.attempt(() => lab.asAdmin('DELETE', path))
      const again = await lab.insist(() => lab.asAdmin('DELETE', path))
      if (removed) expect([removed.status, again.status], 'removed once').to.deep.equal([200, 404])
      expect(await canEnter('/sub-user/login', { username, password }), username).to.equal(false)
      expect(await statusOf(browser), `the session of ${username}`).to.equal(401)
      yield
    }
  }

  /** Lets an administrator see the panel as a customer in each round, and return. */
  async function* views(): AsyncGenerator<void> {
    const administrator = { username: 'viewing', password: await lab.makeAdmin('viewing') }
    const { id, username } = await makeCustomer('viewed')
    for (;;) {
      const browser = lab.someone()
      await lab.insist(() => browser.request('POST', '/login', { body: administrator }))
      await lab.readCsrf(browser)
      const viewed = await lab.attempt(() => browser.request('POST', `/sub-users/${id}/view`))
      // The lane of the login settings requires a second factor in every other round. Then the view is refused.
      if (viewed) expect([200, 'two_factor_required']).to.include(viewed.body.code ?? viewed.status)
      const possible = viewed
        ? [viewed.status === 200 ? username : administrator.username]
        : [username, administrator.username]
      expect(possible, 'the shown account').to.include(await nameOf(browser))
      const { status } = await lab.insist(() => browser.request('POST', '/session/return'))
      if (viewed) expect(status, 'the return').to.equal(viewed.status === 200 ? 200 : 401)
      expect(await nameOf(browser), 'after the return').to.equal(administrator.username)
      yield
    }
  }

  const nameOf = async (browser: Browser): Promise<string> =>
    String((await lab.insist(() => browser.request('GET', '/session'))).body.data.username)

  /** Requests a security check in each round. The check changes no stored data. */
  async function* checks(): AsyncGenerator<void> {
    for (;;) {
      const reply = await lab.attempt(() => lab.asAdmin('POST', '/security/check'))
      if (reply) expect(reply.status, reply.text).to.equal(200)
      yield
    }
  }

  it('keep all acknowledged changes, and the audit log lists exactly these changes', async () => {
    await lab.run([
      ...([administrators, sessions, sshKeys, passkeys, timeZones, customers, views, checks] satisfies Lane[]),
      lab.setting({
        action: 'login_settings.update',
        path: '/login-settings',
        make: (n) => {
          const require_2fa = n % 2 ? 'admins' : 'none'
          return { body: { require_2fa }, text: `require_2fa ${require_2fa}` }
        },
        read: (data) => `require_2fa ${String(data['require_2fa'])}`,
      }),
      lab.setting({
        action: 'language.update',
        path: '/language',
        method: 'POST',
        make: (n) => ({ body: { language: n % 2 ? 'zh' : 'en' }, text: n % 2 ? 'zh' : 'en' }),
        read: (data) => String(data['language']),
      }),
      lab.setting({
        action: 'container.security',
        path: '/containers/guest-0/security',
        make: (n) => {
          const exempt = n % 2 === 0
          return { body: { auto_shutdown_exempt: exempt }, text: `auto_shutdown_exempt ${exempt}` }
        },
        read: (data) => `auto_shutdown_exempt ${String(data['auto_shutdown_exempt'])}`,
      }),
    ])
    expectMutationsAsked('people-kill', lab)
  })
})
