import { expect } from 'chai'
import { LoginLog } from '../../../gateway/accounts/login-log.js'
import { adminBrowser, Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestRedis } from '../../support/gateway/redis.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

interface Row {
  readonly username: string
  readonly ip: string
  readonly success: boolean
  readonly method: string
  readonly reason: string
  readonly count: number
}

describe('the login log', () => {
  let gateway: TestGateway
  let address = 0

  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
  })
  after(() => gateway.close())

  const stranger = (ip = `198.51.100.${++address}`) =>
    new Browser(gateway, { 'x-forwarded-for': ip, 'user-agent': 'Firefox\u00e4' })
  const read = async (query = '') => {
    const { status, body, text } = await gateway.request('GET', `/login-logs${query}`)
    expect(status, text).to.equal(200)
    return body.data as Row[]
  }

  it('records every attempt, with its method and reason', async () => {
    const id = await makeAdmin(gateway, 'ada')
    const ip = '203.0.113.1'
    const browser = stranger(ip)
    await browser.login('ada', 'wrong horse battery')
    await browser.login('ada', password)
    await gateway.request('POST', '/admins', { body: { username: 'bob', password } })
    await gateway.request('PATCH', `/admins/${id}`, { body: { disabled: true } })
    await stranger(ip).login('ADA', password)
    await stranger(ip).login('nobody', password)
    const rows = (await read(`?ip=${ip}`)).map(({ username, success, method, reason }) => ({
      username,
      success,
      method,
      reason,
    }))
    expect(rows.sort((a, b) => (a.reason < b.reason ? -1 : 1))).to.deep.equal([
      { username: 'ada', success: true, method: 'password', reason: '' },
      { username: 'ada', success: false, method: 'password', reason: 'disabled' },
      { username: 'nobody', success: false, method: 'password', reason: 'unknown_user' },
      { username: 'ada', success: false, method: 'password', reason: 'wrong_password' },
    ])
  })

  it('combines equal attempts within a minute into one row that contains their number', async () => {
    await makeAdmin(gateway, 'often')
    const browser = stranger()
    for (let n = 0; n < 8; n++) await browser.login('often', `wrong password ${n}`)
    const rows = (await read('?username=often')).map(({ reason, count }) => [reason, count])
    expect(rows.sort()).to.deep.equal([
      ['rate_limited', 3],
      ['wrong_password', 5],
    ])
  })

  it('stores neither malformed user names nor unprintable characters', async () => {
    await stranger().login('my secret passphrase!', password)
    const [row] = await read('?reason=unknown_user')
    expect(row).to.include({ username: '', user_agent: 'Firefox?' })
    expect((await gateway.request('GET', '/login-logs/export')).text).to.not.include('secret')
  })

  it('can be filtered, sorted and read in pages', async () => {
    await adminBrowser(gateway, 'paged')
    const { body, headers } = await gateway.request('GET', '/login-logs?success=true&page=1&page_size=1')
    expect(body.data).to.have.length(1)
    expect(Number(headers['x-total-count'])).to.be.greaterThan(1)
    expect((await read('?sort=time'))[0]).to.include({ username: 'ada' })
    expect(await read('?from=2099-01-01')).to.deep.equal([])
    expect(await read('?to=2001-01-01')).to.deep.equal([])
    expect((await read('?username=PAGED&method=password')).map((row) => row.username)).to.deep.equal(['paged'])
    for (const query of ['?method=x', '?success=x', '?from=x', '?page=0'])
      expect((await gateway.request('GET', `/login-logs${query}`)).status, query).to.equal(400)
  })

  it('is exported as JSON lines, like the audit log', async () => {
    for (const log of ['login-logs', 'audit-logs']) {
      const { status, text, headers } = await gateway.request('GET', `/${log}/export?success=true`)
      expect(status).to.equal(200)
      expect(headers['content-type']).to.equal('application/x-ndjson; charset=utf-8')
      const lines = text.trimEnd().split('\n')
      expect(lines).to.have.length(Number(headers['x-total-count']))
      const { body } = await gateway.request('GET', `/${log}?success=true`)
      expect(lines.map((line) => JSON.parse(line) as object)).to.deep.equal(body.data)
    }
  })

  it('shows users only their own entries', async () => {
    const ada = await adminBrowser(gateway, 'own1')
    await adminBrowser(gateway, 'own2')
    await stranger().login('own1', 'wrong horse battery')
    const { body } = await ada.request('GET', '/account/login-logs')
    expect((body.data as Row[]).map((row) => [row.username, row.success])).to.deep.equal([
      ['own1', false],
      ['own1', true],
    ])
    await ada.request('POST', '/api-keys', { body: { name: 'mine' } })
    const { body: audit } = await ada.request('GET', '/account/audit-logs')
    expect((audit.data as { action: string }[]).map(({ action }) => action)).to.deep.equal(['apikey.create'])
    expect((await gateway.request('GET', '/account/audit-logs')).status, 'a key').to.equal(403)
  })

  it('keeps the failed logins of an account despite thousands of failed logins of other accounts', async () => {
    const redis = await startTestRedis()
    const store = await redis.openStore()
    const log = new LoginLog(store, { keep: 1000, days: 90 })
    const failure = { userAgent: 'x', method: 'password', reason: 'wrong_password' } as const
    const fail = (username: string, accountId: number, address: string) =>
      log.note({ ...failure, username, accountId, address })
    await fail('owner', 901, '192.0.2.1')
    for (let n = 0; n < 3000; n += 100)
      await Promise.all(
        Array.from({ length: 100 }, (_, at) => {
          const who = (n + at) % 3
          const address = `10.1.${(n + at) >> 8}.${(n + at) & 255}`
          return who === 0 ? fail(`n${n + at}`, 0, address) : fail(`user${who}`, 901 + who, address)
        }),
      )
    await fail('owner', 901, '192.0.2.2')
    const rows = await log.read({})
    expect(rows.length).to.be.within(50, 200)
    expect(
      rows.reduce((sum, { count }) => sum + count, 0),
      'none is lost',
    ).to.equal(3002)
    const addresses = rows.filter(({ accountId }) => accountId === 901).map(({ address }) => address)
    expect(addresses.sort()).to.deep.equal(['192.0.2.1', '192.0.2.2'])
    const summed = rows.filter(({ accountId, address }) => accountId === 902 && address === '')
    expect(summed.reduce((sum, { count }) => sum + count, 0)).to.be.within(970, 990)
    for await (const names of store.client.scanIterator({ MATCH: store.key('login-rows*') }))
      for (const name of names) expect(await store.client.pTTL(name), name).to.be.greaterThan(0)
    await redis.stop()
  })

  it('requires its scope, and refuses keys bound to containers', async () => {
    const key = await gateway.makeKey({ scopes: ['audit:read'] })
    expect((await gateway.request('GET', '/login-logs', { key })).status).to.equal(403)
    const bound = await gateway.makeKey({
      scopes: ['loginlog:read'],
      container_uuids: ['11111111-1111-4111-8111-111111111111'],
    })
    expect((await gateway.request('GET', '/login-logs', { key: bound })).status).to.equal(403)
  })
})
