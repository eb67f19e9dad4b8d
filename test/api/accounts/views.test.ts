import { expect } from 'chai'
import { adminBrowser, Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { forgetConfirmation } from '../../support/gateway/forget-confirmation.js'
import { SubUserCalls, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the view of a sub-user', () => {
  let gateway: TestGateway
  let calls: SubUserCalls
  let count = 0

  before(async () => {
    gateway = await startTestGateway()
    calls = new SubUserCalls(gateway)
    await gateway.fleet.addGuest({ name: 'shown' })
    await gateway.fleet.addGuest({ name: 'hidden' })
  })
  after(() => gateway.close())

  const newSubUser = () => calls.make({ container_name: 'shown', username: `customer${++count}` })
  const view = (browser: Browser, { id }: Pick<MadeSubUser, 'id'>) =>
    browser.request('POST', `/sub-users/${id}/view`, {})
  /** An administrator's browser in which the panel is shown as a new sub-user. */
  const begin = async () => {
    const username = `admin${++count}`
    const browser = await adminBrowser(gateway, username)
    const own = browser.token
    const subUser = await newSubUser()
    const { status, text } = await view(browser, subUser)
    expect(status, text).to.equal(200)
    await browser.readCsrf()
    return { username, browser, own, subUser }
  }
  const whoIs = async (browser: Browser): Promise<object> =>
    (await browser.request('GET', '/session')).body.data as object
  const loggedIn = async ({ username, password: given }: MadeSubUser) => {
    const browser = new Browser(gateway)
    expect((await browser.login(username, given)).status).to.equal(200)
    return browser
  }

  it('has the rights of the sub-user, and returns to the session of the administrator', async () => {
    const { username, browser, own, subUser } = await begin()
    expect(await whoIs(browser)).to.include({ username: subUser.username, kind: 'sub_user', viewed_by: username })
    const { body } = await browser.request('GET', '/containers')
    expect((body.data as { name: string }[]).map(({ name }) => name)).to.deep.equal(['shown'])
    expect(await browser.answerTo('GET', '/admins')).to.deep.equal([403, 'insufficient_scope'])
    const viewToken = browser.token
    expect((await browser.request('POST', '/session/return')).body.data).to.deep.equal({ username })
    expect([browser.token, browser.cookies.has('berth-return')]).to.deep.equal([own, false])
    expect(await whoIs(browser))
      .to.include({ username, kind: 'admin' })
      .and.not.have.property('viewed_by')
    browser.cookies.set('berth', viewToken)
    expect(await browser.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
  })

  it('is in the audit log under the name of the administrator, like all changes in it', async () => {
    const { username, browser, subUser } = await begin()
    expect((await browser.request('POST', '/containers/shown/start')).status).to.be.oneOf([202, 409])
    const { body } = await gateway.request('GET', `/audit-logs?user=${username}`)
    const entries = (body.data as { action: string; target: string }[]).map(({ action, target }) => [action, target])
    expect(entries).to.deep.include(['sub_user.view', subUser.username])
    expect(entries).to.deep.include(['container.start', 'shown'])
    const own = await browser.request('GET', '/account/audit-logs')
    expect(own.body.data, 'entries of the sub-user').to.deep.equal([])
  })

  it('cannot change the account of the sub-user', async () => {
    const { browser, subUser } = await begin()
    const ofAccount = gateway.api.routes.filter(
      ({ scope, method, path }) => scope === 'session' && method !== 'GET' && path !== '/logout',
    )
    const names = ofAccount.map(({ path }) => path)
    expect(names).to.include.members(['/account/password', '/account/totp', '/account/passkeys', '/account/ssh-keys'])
    for (const { method, path } of ofAccount) {
      const answer = await browser.answerTo(method, path.replaceAll(/\{\w+\}/g, '1'), { body: {} })
      expect(answer, `${method} ${path}`).to.deep.equal([403, 'insufficient_scope'])
    }
    expect(await browser.answerTo('POST', '/api-keys', { body: { name: 'own' } })).to.include('insufficient_scope')
    await loggedIn(subUser)
  })

  it('is not among the sessions of the sub-user, and begins no other view', async () => {
    const { browser, subUser } = await begin()
    const customer = await loggedIn(subUser)
    expect((await customer.request('GET', '/account/sessions')).body.data).to.have.length(1)
    expect(await browser.answerTo('POST', `/sub-users/${subUser.id}/view`)).to.include('insufficient_scope')
  })

  const ends: [string, (begun: Awaited<ReturnType<typeof begin>>) => Promise<unknown>][] = [
    [
      'when the session of the administrator ends',
      async ({ own }) => {
        const { sessions } = gateway.access.accounts
        const { account, digest } = (await sessions.find(own))!
        await sessions.endAll(account.id, [digest])
      },
    ],
    [
      'when the administrator is disabled',
      async ({ username }) => {
        const admin = (await gateway.access.accounts.accounts.findByName(username))!
        const path = `/admins/${admin.id}`
        expect((await gateway.request('PATCH', path, { body: { disabled: true } })).status).to.equal(200)
      },
    ],
    ['when the sub-user is disabled', ({ subUser }) => calls.change(subUser.id, { disabled: true })],
  ]
  for (const [name, end] of ends)
    it(`ends ${name}`, async () => {
      const begun = await begin()
      await end(begun)
      expect(await begun.browser.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
    })

  it('returns to the administrator after the sub-user was disabled', async () => {
    const { username, browser, subUser } = await begin()
    await calls.change(subUser.id, { disabled: true })
    expect((await browser.request('POST', '/session/return')).status).to.equal(200)
    expect(await whoIs(browser)).to.include({ username })
  })

  it('ends together with the session of the administrator at a logout', async () => {
    const { browser, own } = await begin()
    expect((await browser.request('POST', '/logout')).status).to.equal(200)
    expect([...browser.cookies.keys()]).to.not.include.members(['berth', 'berth-return'])
    browser.cookies.set('berth', own)
    expect(await browser.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
  })

  it('leaves no way back after another login in the same browser', async () => {
    const { browser, subUser } = await begin()
    expect((await browser.login(subUser.username, subUser.password)).status).to.equal(200)
    expect(await whoIs(browser))
      .to.include({ username: subUser.username })
      .and.not.have.property('viewed_by')
    expect(await browser.answerTo('POST', '/session/return')).to.deep.equal([401, 'unauthorized'])
  })

  it('is refused to sub-users, lower roles and API keys', async () => {
    const subUser = await newSubUser()
    const customer = await loggedIn(subUser)
    await makeAdmin(gateway, 'an-operator', password, { role: 'operator' })
    const operator = new Browser(gateway)
    await operator.login('an-operator', password)
    for (const browser of [customer, operator])
      expect(await browser.answerTo('POST', `/sub-users/${subUser.id}/view`)).to.deep.equal([403, 'insufficient_scope'])
    const { status, body } = await gateway.request('POST', `/sub-users/${subUser.id}/view`)
    expect([status, body.code]).to.deep.equal([403, 'insufficient_scope'])
  })

  it('is refused for sub-users that are disabled or do not exist', async () => {
    const browser = await adminBrowser(gateway, `admin${++count}`)
    const subUser = await newSubUser()
    await calls.change(subUser.id, { disabled: true })
    expect(await browser.answerTo('POST', `/sub-users/${subUser.id}/view`)).to.deep.equal([409, 'invalid_state'])
    expect(await browser.answerTo('POST', '/sub-users/99999/view')).to.deep.equal([404, 'not_found'])
  })

  it('requires a recent confirmation', async () => {
    const browser = await adminBrowser(gateway, `admin${++count}`)
    const subUser = await newSubUser()
    await forgetConfirmation(gateway, browser.token)
    const answer = await browser.answerTo('POST', `/sub-users/${subUser.id}/view`)
    expect(answer).to.deep.equal([403, 'confirmation_required'])
    expect((await browser.request('POST', '/account/confirm', { body: { password } })).status).to.equal(200)
    expect((await view(browser, subUser)).status).to.equal(200)
  })
})
