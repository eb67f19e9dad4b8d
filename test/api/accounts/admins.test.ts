import { expect } from 'chai'
import { adminBrowser, Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

interface Row {
  readonly id: number
  readonly username: string
  readonly invited: boolean
}

const hourMs = 3_600_000
let gateway: TestGateway

const admins = () => gateway.access.accounts.admins
const setUp = (token: string, more: object = {}) =>
  new Browser(gateway).answerTo('POST', '/setup', { body: { token, password, ...more } })

describe('administrators', () => {
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  describe('who use a set-up link', () => {
    // The store is changed directly, because the API refuses to remove the last administrator who can log in.
    beforeEach(async () => {
      const { accounts } = gateway.access.accounts
      for (const { id } of await admins().list()) await accounts.remove('admin', id)
      await gateway.store.client.del(gateway.store.key('setup-first'))
    })

    it('are created only once, even by simultaneous requests with the link', async () => {
      const token = (await admins().firstLink())!
      const names = Array.from({ length: 20 }, (_, n) => `admin${n}`)
      const answers = await Promise.all(names.map((username) => setUp(token, { username })))
      const statuses = answers.map(([status]) => status)
      expect(statuses.filter((status) => status === 201)).to.have.length(1)
      expect(statuses.filter((status) => status === 404)).to.have.length(19)
      expect((await gateway.request('GET', '/admins')).body.data).to.have.length(1)
      expect(await setUp(token, { username: 'late' })).to.deep.equal([404, 'not_found'])
      expect(await admins().firstLink(), 'another first link').to.equal(undefined)
    })

    it('are listed in pages, and sorted', async () => {
      for (const username of ['bob', 'ada', 'eve']) await admins().create(username, password)
      const names = async (query: string): Promise<unknown[]> => {
        const { headers, body } = await gateway.request('GET', `/admins${query}`)
        return [headers['x-total-count'], ...(body.data as { username: string }[]).map(({ username }) => username)]
      }
      expect(await names('')).to.deep.equal(['3', 'bob', 'ada', 'eve'])
      expect(await names('?sort=username&page=2&page_size=2')).to.deep.equal(['3', 'eve'])
      expect(await names('?username=ada')).to.deep.equal(['1', 'ada'])
    })

    it('are logged in as soon as their account is created', async () => {
      const browser = new Browser(gateway)
      const body = { token: (await admins().firstLink())!, username: 'ada', password }
      expect((await browser.request('POST', '/setup', { body })).status).to.equal(201)
      expect((await browser.request('GET', '/session')).body.data.username).to.equal('ada')
      const { body: audit } = await gateway.request('GET', '/audit-logs?action=account.setup')
      expect(audit.data[0]).to.include({ user: '', by: 'nobody', target: 'ada', success: true })
    })

    it('cannot use the link if a newer link exists', async () => {
      const [old, young] = [(await admins().firstLink())!, (await admins().firstLink())!]
      expect(await setUp(old, { username: 'ada' })).to.deep.equal([404, 'not_found'])
      expect((await setUp(young, { username: 'ada' }))[0]).to.equal(201)
    })

    it('can use the link for only one day', async () => {
      const token = (await admins().firstLink())!
      const { client } = gateway.store
      const key = gateway.store.key('setup-first')
      expect(await client.pTTL(key)).to.be.within(23 * hourMs, 24 * hourMs)
      await client.pExpire(key, 1)
      await waitFor(async () => (await client.exists(key)) === 0)
      expect(await setUp(token, { username: 'ada' })).to.deep.equal([404, 'not_found'])
      expect((await setUp((await admins().firstLink())!, { username: 'ada' }))[0], 'another').to.equal(201)
    })

    it('can use the link again if the password or the name was invalid', async () => {
      const token = (await admins().firstLink())!
      for (const [what, more] of [
        ['a short password', { username: 'ada', password: 'short' }],
        ['no name', {}],
        ['a bad name', { username: 'a:b' }],
        ['a password with the name', { username: 'correct' }],
      ] as const)
        expect((await setUp(token, more))[1], what).to.equal('invalid_field')
      expect((await setUp(token, { username: 'ada' }))[0]).to.equal(201)
    })

    it('can check whether the link is valid, and can still use it afterwards', async () => {
      const look = (token: string) =>
        gateway
          .request('POST', '/setup/link', { key: '', body: { token } })
          .then(({ status, body }) => [...([status, body.data?.username ?? body.code] as unknown[])])
      expect(await admins().hasLink(), 'no account was created').to.equal(false)
      const token = (await admins().firstLink())!
      expect(await admins().hasLink()).to.equal(true)
      for (let times = 0; times < 3; times++) expect(await look(token)).to.deep.equal([200, ''])
      expect(await look('A'.repeat(43))).to.deep.equal([404, 'not_found'])
      await makeAdmin(gateway, 'ada') // creates the first administrator with POST /admins, not with the link
      expect(await look(token), 'an administrator exists').to.deep.equal([404, 'not_found'])
      expect(await admins().hasLink()).to.equal(false)
      const invited = await admins().invite('bob')
      expect(await look(invited.token)).to.deep.equal([200, 'bob'])
      expect(await admins().hasLink()).to.equal(true)
      expect((await setUp(invited.token))[0]).to.equal(201)
      expect(await look(invited.token)).to.deep.equal([404, 'not_found'])
      expect(await admins().hasLink(), 'all are used').to.equal(false)
    })

    it('are not created with an invalid token', async () => {
      await admins().firstLink()
      for (const token of ['x', 'A'.repeat(43), '', '*'])
        expect((await setUp(token, { username: 'ada' }))[0], token).to.be.oneOf([400, 404])
    })

    it('cannot be removed if no other administrator can log in, even by concurrent requests', async () => {
      const [ada, bob] = [await makeAdmin(gateway, 'ada'), await makeAdmin(gateway, 'bob')]
      await admins().invite('carol') // carol does not count, because she cannot log in yet
      const removals = [ada, bob].map((id) => gateway.request('DELETE', `/admins/${id}`))
      const statuses = (await Promise.all(removals)).map(({ status }) => status)
      expect(statuses.sort()).to.deep.equal([200, 409])
      const [left] = [ada, bob].filter((_, at) => statuses[at] === 409)
      const { body } = await gateway.request('GET', '/admins')
      const one = (body.data as Row[]).find((row) => !row.invited)!
      const answer = await gateway.request('PATCH', `/admins/${one.id}`, { body: { disabled: true } })
      expect([answer.status, answer.body.code], String(left)).to.deep.equal([409, 'invalid_state'])
    })

    it('are shown with the time of their last login', async () => {
      await adminBrowser(gateway, 'ada')
      const { body } = await gateway.request('GET', '/admins')
      expect(body.data[0]).to.include({ username: 'ada', last_login_ip: '127.0.0.1', two_factor: false })
      expect(body.data[0].last_login).to.match(/^\d{4}-/)
    })
  })

  describe('who are invited', () => {
    it('get from another administrator a link that works only once', async () => {
      const ada = await adminBrowser(gateway, 'ada1')
      const { status, body } = await ada.request('POST', '/admins', { body: { username: 'bob1' } })
      expect([status, body.data.invited]).to.deep.equal([201, true])
      expect((await new Browser(gateway).login('bob1', password)).status, 'no password yet').to.equal(401)
      const token = body.data.setup_token as string
      const answers = await Promise.all(Array.from({ length: 5 }, () => setUp(token)))
      expect(answers.map(([code]) => code).sort()).to.deep.equal([201, 404, 404, 404, 404])
      expect((await new Browser(gateway).login('bob1', password)).status).to.equal(200)
    })

    it('can accept the invitation for only one day', async () => {
      const invited = await gateway.request('POST', '/admins', { body: { username: 'late1' } })
      const token = invited.body.data.setup_token as string
      const { accounts } = gateway.access.accounts
      await accounts.change('admin', invited.body.data.id as number, (now) => {
        if (now.kind !== 'admin' || now.link === undefined) throw new Error('no link')
        expect(now.link.expiresAtMs - Date.now()).to.be.within(23 * hourMs, 24 * hourMs)
        return { ...now, link: { ...now.link, expiresAtMs: Date.now() - 1 } }
      })
      expect(await setUp(token)).to.deep.equal([404, 'not_found'])
    })

    it('cannot have the name of another administrator, even in a different case', async () => {
      await makeAdmin(gateway, 'ada2')
      const body = { username: 'ADA2', password }
      expect((await gateway.request('POST', '/admins', { body })).body.code).to.equal('name_conflict')
    })

    it('lose their sessions when they are disabled, and do not get them back when they are enabled', async () => {
      const ada = await adminBrowser(gateway, 'ada3')
      const bob = await adminBrowser(gateway, 'bob3')
      const { body } = await ada.request('GET', '/admins')
      const { id } = (body.data as Row[]).find((row) => row.username === 'bob3')!
      const change = (disabled: boolean) => ada.request('PATCH', `/admins/${id}`, { body: { disabled } })
      expect((await change(true)).body.data.disabled).to.equal(true)
      expect(await bob.answerTo('GET', '/containers')).to.deep.equal([401, 'unauthorized'])
      expect((await change(false)).status).to.equal(200)
      expect(await bob.answerTo('GET', '/containers')).to.deep.equal([401, 'unauthorized'])
      expect((await bob.login('bob3', password)).status).to.equal(200)
    })

    it('lose their sessions when they are removed', async () => {
      const ada = await adminBrowser(gateway, 'ada4')
      const bob = await adminBrowser(gateway, 'bob4')
      const { body } = await ada.request('GET', '/admins')
      const { id } = (body.data as Row[]).find((row) => row.username === 'bob4')!
      expect((await ada.request('DELETE', `/admins/${id}`)).status).to.equal(200)
      expect(await bob.answerTo('GET', '/containers')).to.deep.equal([401, 'unauthorized'])
      expect(await ada.answerTo('DELETE', `/admins/${id}`)).to.deep.equal([404, 'not_found'])
      await makeAdmin(gateway, 'bob4')
      expect(await bob.answerTo('GET', '/containers'), 'of the same name').to.deep.equal([401, 'unauthorized'])
    })

    it('have a role, and a change of this role ends their sessions and takes effect immediately', async () => {
      const ada = await adminBrowser(gateway, 'ada7')
      const made = await ada.request('POST', '/admins', { body: { username: 'bob7', password, role: 'support' } })
      expect([made.status, made.body.data.role]).to.deep.equal([201, 'support'])
      const bob = new Browser(gateway)
      await bob.login('bob7', password)
      const { data } = (await bob.request('GET', '/session')).body
      expect(data.role).to.equal('support')
      expect(data.scopes).to.include('container:power').and.not.include('container:delete')
      const path = `/admins/${made.body.data.id}`
      expect(await bob.answerTo('PATCH', path, { body: { role: 'full' } })).to.deep.equal([403, 'insufficient_scope'])
      expect(await bob.answerTo('GET', '/api-keys')).to.deep.equal([403, 'insufficient_scope'])
      expect((await ada.request('PATCH', path, { body: { role: 'full' } })).body.data.role).to.equal('full')
      expect(await bob.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
      await bob.login('bob7', password)
      expect((await bob.request('GET', '/api-keys')).status).to.equal(200)
      const { body } = await gateway.request('GET', '/audit-logs?action=admin.update&page_size=1')
      expect(body.data[0].detail).to.include('role full')
    })

    it('can choose a time zone by its name, and keep their session', async () => {
      const ada = await adminBrowser(gateway, 'ada9')
      const choose = (zone: string) => ada.answerTo('PUT', '/account/time-zone', { body: { time_zone: zone } })
      const shown = async (): Promise<unknown> => (await ada.request('GET', '/session')).body.data.display_time_zone
      expect([await shown(), (await choose('Europe/Berlin'))[0], await shown()]).to.deep.equal([
        '',
        200,
        'Europe/Berlin',
      ])
      for (const bad of ['Europe/Nowhere', '+02:00', '../etc', 'x'.repeat(65)])
        expect(await choose(bad), bad).to.deep.equal([400, 'invalid_field'])
      expect([(await choose(''))[0], await shown()]).to.deep.equal([200, ''])
    })

    it('cannot be demoted if no other full administrator can log in', async () => {
      const ids = async (): Promise<Row[]> => (await gateway.request('GET', '/admins')).body.data as Row[]
      const demote = (id: number) => gateway.request('PATCH', `/admins/${id}`, { body: { role: 'operator' } })
      await makeAdmin(gateway, 'ada8')
      const answers = await Promise.all((await ids()).map(({ id }) => demote(id)))
      expect(
        answers.filter(({ body }) => body.code === 'invalid_state'),
        'refused',
      ).to.have.length(1)
      const left = (await gateway.request('GET', '/admins?role=full')).body.data as Row[]
      expect(left.filter(({ invited }) => !invited)).to.have.length(1)
      const remove = await gateway.request('DELETE', `/admins/${left.find(({ invited }) => !invited)!.id}`)
      expect([remove.status, remove.body.code]).to.deep.equal([409, 'invalid_state'])
    })

    it('cannot be created with a key whose rights are restricted in any way', async () => {
      const body = { username: 'ada5', password }
      const make = async (fields: object) => {
        const { body: made } = await gateway.request('POST', '/api-keys', { body: { name: 'x', ...fields } })
        const { body: answer } = await gateway.request('POST', '/admins', {
          key: made.data.key as string,
          body,
        })
        return answer.code as string
      }
      expect(await make({ scopes: ['admin:access', 'apikey:*'] })).to.equal('insufficient_scope')
      expect(await make({ scopes: ['*'], ip_whitelist: '127.0.0.0/8' })).to.equal('insufficient_scope')
      expect(await make({ scopes: ['*'], expires_at: '2099-01-01' })).to.equal('insufficient_scope')
      const container_uuids = ['11111111-1111-4111-8111-111111111111']
      expect(await make({ scopes: ['*'], container_uuids })).to.equal('insufficient_scope')
    })

    it('lose password, second factor and sessions if a command on the gateway’s machine resets them', async () => {
      const ada = await adminBrowser(gateway, 'ada6')
      const { admin, token } = await admins().recover('ada6')
      expect(admin.username).to.equal('ada6')
      expect(await ada.answerTo('GET', '/session')).to.deep.equal([401, 'unauthorized'])
      expect((await new Browser(gateway).login('ada6', password)).status).to.equal(401)
      expect((await setUp(token, { password: 'staple paper clip 7' }))[0]).to.equal(201)
      expect((await new Browser(gateway).login('ada6', 'staple paper clip 7')).status).to.equal(200)
    })
  })
})
