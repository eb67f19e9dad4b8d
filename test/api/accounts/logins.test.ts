import { expect } from 'chai'
import { rateLimited } from '../../../shared/rate-limit.js'
import { ask, createClient } from '../../support/ask.js'
import { adminBrowser, Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('a login', () => {
  let gateway: TestGateway

  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
    await makeAdmin(gateway, 'ada')
  })
  after(() => gateway.close())

  let address = 0
  /** A browser with an address of its own, because logins are limited for each address. */
  const stranger = () => new Browser(gateway, { 'x-forwarded-for': `198.51.100.${++address}` })

  it('begins a session with all rights of an administrator', async () => {
    const browser = stranger()
    const { status, body } = await browser.login('ada', password)
    expect([status, body.data]).to.deep.equal([200, { username: 'ada', kind: 'admin' }])
    expect((await browser.request('GET', '/containers')).status).to.equal(200)
    const made = await browser.request('POST', '/api-keys', { body: { name: 'by ada', scopes: ['*'] } })
    expect([made.status, made.body.data.scopes]).to.deep.equal([201, ['*']])
    const key = made.body.data.key as string
    expect((await gateway.request('GET', '/api-keys', { key })).status).to.equal(200)
    const { body: audit } = await gateway.request('GET', '/audit-logs?action=apikey.create')
    expect(audit.data[0]).to.include({ user: 'ada', target: 'by ada', key_id: 0 })
  })

  it('stays possible from a known address while unknown addresses flood the gateway with logins', async function () {
    const home = { 'x-forwarded-for': '192.0.2.10' }
    expect((await new Browser(gateway, home).login('ada', password)).status).to.equal(200)
    const client = createClient({ maxConnections: 60 })
    const flood = new Map<number, number>()
    let running = true
    const attack = async (lane: number): Promise<void> => {
      for (let n = 0; running; n++) {
        const { status, headers } = await ask(client, `${gateway.url}/api/v1/login`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-forwarded-for': `2001:db8:${lane}:${n}::1` },
          body: JSON.stringify({ username: `nobody-${lane}-${n}`, password: 'wrong password' }),
        })
        flood.set(status, (flood.get(status) ?? 0) + 1)
        if (status !== 429) continue
        expect(Number(headers['retry-after'])).to.be.greaterThan(0)
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
    }
    const attacks = Promise.all(Array.from({ length: 60 }, (_, lane) => attack(lane)))
    try {
      await waitFor(() => flood.has(429), { what: 'a stranger is refused' })
      for (let n = 0; n < 3; n++) expect((await new Browser(gateway, home).login('ada', password)).status).to.equal(200)
    } finally {
      running = false
      await attacks
      client.close()
    }
    expect([...flood.keys()].sort()).to.deep.equal([401, 429])
  })

  it('sets a cookie that neither scripts nor requests from other sites can use', async () => {
    const { headers } = await stranger().login('ada', password)
    const [session] = [headers['set-cookie'] ?? []].flat()
    expect(session).to.match(/^berth=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604800$/)
  })

  it('sets a Secure cookie with the prefix __Host- over TLS, and accepts only this cookie over TLS', async () => {
    const plain = stranger()
    await plain.login('ada', password)
    const tls = new Browser(gateway, { 'x-forwarded-for': '198.51.100.200', 'x-forwarded-proto': 'https' })
    const origin = gateway.url.replace('http:', 'https:')
    const { status, headers } = await tls.request('POST', '/login', {
      body: { username: 'ada', password },
      headers: { origin },
    })
    expect(status).to.equal(200)
    const lines = [headers['set-cookie'] ?? []].flat()
    for (const line of lines) expect(line).to.match(/^__Host-berth(-device)?=.*; Path=\/;.*; Secure/)
    expect((await tls.request('GET', '/session')).status).to.equal(200)
    tls.cookies.clear()
    tls.cookies.set('berth', plain.token)
    expect((await tls.request('GET', '/session')).status).to.equal(401)
  })

  for (const [what, username, given] of [
    ['a wrong password', 'ada', 'wrong horse battery'],
    ['an unknown name', 'nobody', password],
    ['a name of one dot', '.', password],
    ['a name with a Cyrillic letter', 'адa', password],
  ] as const)
    it(`fails with the same error for ${what}`, async () => {
      const { status, body } = await stranger().login(username, given)
      expect([status, body.code, body.message]).to.deep.equal([401, 'login_failed', 'wrong user name or password'])
    })

  it('accepts names in any case, and passwords in any Unicode composition', async () => {
    await makeAdmin(gateway, 'Grace', 'pa\u0308ssword of hopper')
    expect((await stranger().login('gRACE', 'p\u00e4ssword of hopper')).status).to.equal(200)
  })

  it('is required if the session cookie is invalid', async () => {
    const browser = stranger()
    for (const token of ['x', 'A'.repeat(43), '../../x', `${'A'.repeat(42)}%`]) {
      browser.cookies.set('berth', token)
      expect(await browser.answerTo('GET', '/session'), token).to.deep.equal([401, 'unauthorized'])
    }
  })

  it('does not extend the rights of an API key in the same request', async () => {
    const browser = await adminBrowser(gateway, 'both')
    const key = await gateway.makeKey({ scopes: ['container:read'] })
    const headers = { 'x-api-key': key }
    expect(await browser.answerTo('GET', '/api-keys', { headers })).to.deep.equal([403, 'insufficient_scope'])
    expect(await browser.answerTo('GET', '/session', { headers })).to.deep.equal([403, 'insufficient_scope'])
    const wrong = { 'x-api-key': 'wrong' }
    expect(await browser.answerTo('GET', '/session', { headers: wrong })).to.deep.equal([401, 'unauthorized'])
  })

  it('is refused after five wrong passwords in a minute, and Retry-After contains the waiting time', async () => {
    await makeAdmin(gateway, 'guessed')
    const guesser = stranger()
    for (let n = 1; n <= 5; n++)
      expect((await guesser.login('guessed', `wrong password ${n}`)).status, String(n)).to.equal(401)
    const { status, body, headers } = await guesser.login('guessed', password)
    expect([status, body.code]).to.deep.equal([429, 'rate_limited'])
    expect(Number(headers['retry-after'])).to.be.within(30, 60)
    expect((await stranger().login('guessed', password)).status, 'from elsewhere').to.equal(200)
  })

  it('has the same limit for concurrent attempts as for successive attempts', async () => {
    await makeAdmin(gateway, 'flooded')
    const guesser = stranger()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, n) => guesser.login('flooded', `wrong password ${n}`)),
    )
    const statuses = replies.map(({ status }) => status).sort()
    expect(statuses).to.deep.equal([...Array<number>(5).fill(401), ...Array<number>(15).fill(429)])
  })

  it('has a separate limit for a device that has logged in before', async () => {
    await makeAdmin(gateway, 'owner')
    const shared = { 'x-forwarded-for': '198.51.100.250' }
    const owner = new Browser(gateway, shared)
    await owner.login('owner', password)
    const guesser = new Browser(gateway, shared)
    for (let n = 1; n <= 6; n++) await guesser.login('owner', `wrong password ${n}`)
    expect((await guesser.login('owner', password)).status).to.equal(429)
    expect((await owner.login('owner', password)).status).to.equal(200)
    guesser.cookies.set('berth-device', `${'A'.repeat(22)}.${'A'.repeat(22)}`)
    expect((await guesser.login('owner', password)).status, 'a made-up device').to.equal(429)
  })

  it('is refused to a disabled account', async () => {
    const id = await makeAdmin(gateway, 'away')
    await gateway.request('PATCH', `/admins/${id}`, { body: { disabled: true } })
    expect(await stranger().answerTo('POST', '/login', { body: { username: 'away', password } })).to.deep.equal([
      401,
      'login_failed',
    ])
  })

  it('does not count as an attempt if its password was not checked because of too many logins', async () => {
    await makeAdmin(gateway, 'crowded')
    const { passwords } = gateway.access.accounts
    const matches = passwords.matches.bind(passwords)
    const browser = stranger()
    passwords.matches = () => Promise.reject(rateLimited('too many people log in', 2000))
    try {
      for (let n = 0; n < 6; n++) expect((await browser.login('crowded', password)).status).to.equal(429)
    } finally {
      passwords.matches = matches
    }
    expect((await browser.login('crowded', password)).status).to.equal(200)
  })

  it('is refused to an address that the access policy excludes, and so are requests with a session', async () => {
    const inside = stranger()
    await inside.login('ada', password)
    const outside = new Browser(gateway, { 'x-forwarded-for': '203.0.113.5' })
    outside.cookies.set('berth', inside.token)
    const policy = (body: object) => gateway.request('PUT', '/access-policy', { body })
    expect((await policy({ enabled: true, allowed_sources: ['198.51.100.0/24'] })).status).to.equal(200)
    try {
      const login = { body: { username: 'ada', password } }
      expect(await outside.answerTo('POST', '/login', login)).to.deep.equal([403, 'access_policy_denied'])
      expect(await outside.answerTo('GET', '/session')).to.deep.equal([403, 'access_policy_denied'])
      expect((await inside.request('GET', '/session')).status).to.equal(200)
    } finally {
      await policy({ enabled: false })
    }
  })

  it('is refused to everybody with 503 while the store is down', async () => {
    const own = await startTestGateway()
    try {
      const browser = await adminBrowser(own, 'ada')
      await own.redis.stop()
      expect((await new Browser(own).login('ada', password)).status).to.equal(503)
      expect((await browser.request('GET', '/containers')).status).to.equal(503)
    } finally {
      await own.close()
    }
  })
})
