import { expect } from 'chai'
import { digestToken } from '../../../gateway/accounts/session-secret.js'
import { Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

interface Begun {
  readonly device_code: string
  readonly user_code: string
}

describe('logins of the command line through the panel', () => {
  let gateway: TestGateway
  let browser: Browser
  before(async () => {
    gateway = await startTestGateway()
    browser = await logIn('confirming')
  })
  after(() => gateway.close())

  const logIn = async (username: string, more = {}): Promise<Browser> => {
    await makeAdmin(gateway, username, password, more)
    const made = new Browser(gateway)
    expect((await made.login(username, password)).status).to.equal(200)
    return made
  }
  const begin = async (machine = 'laptop'): Promise<Begun> => {
    const { status, body, text } = await gateway.request('POST', '/cli-logins', { key: '', body: { machine } })
    expect(status, text).to.equal(201)
    return body.data as Begun
  }
  const poll = ({ device_code }: Pick<Begun, 'device_code'>): Promise<Reply> =>
    gateway.request('POST', '/cli-logins/poll', { key: '', body: { device_code } })
  const answer = (verb: 'find' | 'approve' | 'deny', user_code: string, more = {}, as = browser): Promise<Reply> =>
    as.request('POST', `/cli-logins/${verb}`, { body: { user_code, ...more } })
  const codeOf = ({ status, body }: Reply): [number, unknown] => [status, body.code]
  const keyNames = async (): Promise<string[]> =>
    ((await gateway.request('GET', '/api-keys')).body.data as unknown as { name: string }[]).map(({ name }) => name)

  it('return the key of a confirmed login exactly once, with the chosen rights and expiry', async () => {
    const begun = await begin()
    expect((await poll(begun)).body.data).to.deep.equal({ status: 'pending' })
    const { body: found } = await answer('find', begun.user_code.toLowerCase().replace('-', ' '))
    expect(found.data).to.include({ machine: 'laptop', address: '127.0.0.1' })
    const approved = await answer('approve', begun.user_code, { rights: 'read', expires_at: '2031-02-03' })
    expect(approved.status, approved.text).to.equal(201)
    expect(approved.text).not.to.contain('berth_sk_')
    const replies = await Promise.all([poll(begun), poll(begun)])
    const keys = replies.flatMap(({ body }) => (body.data?.key === undefined ? [] : [String(body.data.key)]))
    expect(keys).to.have.length(1)
    expect(codeOf(await poll(begun))).to.deep.equal([404, 'cli_login_unknown'])
    const { body: caller } = await gateway.request('GET', '/caller', { key: keys[0]! })
    expect(caller.data.scopes).to.include('container:read').and.not.to.include('*')
    const { body: list } = await gateway.request('GET', '/api-keys?name=berth on laptop')
    expect((list.data as unknown as object[])[0]).to.include({
      name: 'berth on laptop',
      expires_at: '2031-02-03 23:59:59',
    })
    const { body: audit } = await gateway.request('GET', '/audit-logs?action=apikey.create&user=confirming')
    const [entry] = audit.data as unknown as { target: string; detail: string }[]
    expect(entry!.target).to.equal('berth on laptop')
    expect(entry!.detail).to.contain('login of the command line on laptop at 127.0.0.1')
  })

  it('create no key if they are denied, and cannot be confirmed afterwards', async () => {
    const begun = await begin('denied-machine')
    expect((await answer('deny', begun.user_code)).status).to.equal(200)
    const again = await answer('approve', begun.user_code, { rights: 'all' })
    expect(codeOf(again)).to.deep.equal([409, 'invalid_state'])
    expect(codeOf(await poll(begun))).to.deep.equal([403, 'cli_login_denied'])
    expect(codeOf(await poll(begun))).to.deep.equal([404, 'cli_login_unknown'])
    expect(codeOf(await answer('find', begun.user_code))).to.deep.equal([404, 'cli_login_unknown'])
    expect(await keyNames()).not.to.include('berth on denied-machine')
  })

  it('create one key if several confirmations arrive at the same time', async () => {
    const begun = await begin('raced')
    const approvals = Array.from({ length: 4 }, () => answer('approve', begun.user_code, { rights: 'all' }))
    const statuses = (await Promise.all(approvals)).map(({ status }) => status)
    expect(statuses.sort()).to.deep.equal([201, 409, 409, 409])
    expect((await keyNames()).filter((name) => name === 'berth on raced')).to.have.length(1)
  })

  it('create one key if a confirmation is repeated with its Idempotency-Key', async () => {
    const begun = await begin('repeated')
    const request = () =>
      browser.request('POST', '/cli-logins/approve', {
        body: { user_code: begun.user_code, rights: 'all' },
        headers: { 'idempotency-key': 'repeated-approval' },
      })
    const [first, second] = [await request(), await request()]
    expect([first.status, second.status]).to.deep.equal([201, 201])
    expect((await keyNames()).filter((name) => name === 'berth on repeated')).to.have.length(1)
    expect((await poll(begun)).body.data.key).to.match(/^berth_sk_/)
  })

  it('are unknown after they have expired, and create no key', async () => {
    const begun = await begin('slow')
    const { client } = gateway.store
    await client.pExpire(gateway.store.key('cli-login', digestToken(begun.device_code)), 1)
    await waitFor(async () => (await poll(begun)).status === 404, { what: 'the login to expire' })
    const late = await answer('approve', begun.user_code, { rights: 'all' })
    expect(codeOf(late)).to.deep.equal([404, 'cli_login_unknown'])
    expect(await keyNames()).not.to.include('berth on slow')
  })

  it('require the password if its last confirmation is ten minutes old', async () => {
    const begun = await begin()
    const confirming = await logIn('forgetful')
    const account = (await gateway.access.accounts.accounts.findByName('forgetful'))!
    const { client } = gateway.store
    const [digest = ''] = await client.sMembers(gateway.store.key('account-sessions', account.id))
    const key = gateway.store.key('session', digest)
    const record = JSON.parse((await client.get(key))!) as object
    const old = { ...record, confirmedAtMs: Date.now() - 10 * 60_000 - 1 }
    await client.set(key, JSON.stringify(old), { expiration: 'KEEPTTL' })
    await gateway.store.ping()
    const approve = () => answer('approve', begun.user_code, { rights: 'all' }, confirming)
    expect(codeOf(await approve())).to.deep.equal([403, 'confirmation_required'])
    expect((await confirming.request('POST', '/account/confirm', { body: { password } })).status).to.equal(200)
    expect((await approve()).status).to.equal(201)
  })

  it('can be confirmed only by an account that can create keys', async () => {
    const begun = await begin()
    const support = await logIn('helping', { role: 'support' })
    const refused = await answer('approve', begun.user_code, { rights: 'read' }, support)
    expect(codeOf(refused)).to.deep.equal([403, 'insufficient_scope'])
    expect((await poll(begun)).body.data).to.deep.equal({ status: 'pending' })
  })

  it('refuse further codes from an account after ten wrong codes, but accept codes from other accounts', async () => {
    const guessing = await logIn('guessing')
    const begun = await begin()
    for (let at = 0; at < 10; at++)
      expect((await answer('find', at % 2 ? 'BBBB-BBBB' : 'no code', {}, guessing)).status).to.equal(404)
    const refused = await answer('find', begun.user_code, {}, guessing)
    expect(codeOf(refused)).to.deep.equal([429, 'rate_limited'])
    expect(Number(refused.headers['retry-after'])).to.be.above(0)
    for (let at = 0; at < 12; at++) expect((await answer('find', begun.user_code)).status).to.equal(200)
  })

  it('let a key of a login delete itself, but no other key', async () => {
    const begun = await begin('leaving')
    await answer('approve', begun.user_code, { rights: 'all' })
    const key = String((await poll(begun)).body.data.key)
    expect((await gateway.request('POST', '/cli-logins/end', { key })).status).to.equal(200)
    expect((await gateway.request('GET', '/version', { key })).status).to.equal(401)
    expect(await keyNames()).not.to.include('berth on leaving')
    expect(codeOf(await gateway.request('POST', '/cli-logins/end'))).to.deep.equal([409, 'invalid_state'])
  })

  it('can be begun only twenty times within ten minutes from one address', async () => {
    const replies: Reply[] = []
    for (let at = 0; at < 21; at++)
      replies.push(await gateway.request('POST', '/cli-logins', { key: '', body: { machine: 'flood' } }))
    expect(codeOf(replies.at(-1)!)).to.deep.equal([429, 'rate_limited'])
  })

  it('store neither a code nor a key in readable form', async () => {
    const { client } = gateway.store
    const texts: string[] = []
    for await (const names of client.scanIterator({ MATCH: gateway.store.key('cli-login', '*') }))
      for (const name of names) texts.push(name, String(await client.get(name)))
    const text = texts.join('\n')
    expect(text).to.contain('flood')
    expect(text).not.to.match(/berth_sk_|[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}/)
  })
})
