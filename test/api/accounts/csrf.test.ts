import { expect } from 'chai'
import { adminBrowser, Browser, password, makeAdmin } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the protection against requests from other sites', () => {
  let gateway: TestGateway
  let browser: Browser
  let csrf: string
  let cookie: string

  before(async () => {
    gateway = await startTestGateway()
    browser = await adminBrowser(gateway, 'ada')
    csrf = await browser.readCsrf()
    cookie = `berth=${browser.token}`
  })
  after(() => gateway.close())

  const host = () => new URL(gateway.url).host
  const change = async (headers: Record<string, string>) => {
    const options = { key: '', headers: { cookie, ...headers }, body: { language: 'zh' } }
    const { status, body } = await gateway.request('POST', '/language', options)
    return (body.code as string | undefined) ?? status
  }
  const language = async () => (await gateway.request('GET', '/language')).body.data.language as string

  const refused: [string, () => Record<string, string>][] = [
    ['only the session cookie', () => ({})],
    ['the right origin but no CSRF token', () => ({ origin: gateway.url })],
    ['the CSRF token but no origin', () => ({ 'x-berth-csrf': csrf })],
    ['a wrong CSRF token', () => ({ origin: gateway.url, 'x-berth-csrf': 'A'.repeat(43) })],
    ['an empty CSRF token', () => ({ origin: gateway.url, 'x-berth-csrf': '' })],
    ['the origin of a different site', () => ({ origin: 'https://evil.example', 'x-berth-csrf': csrf })],
    ['the origin of a different port', () => ({ origin: 'http://127.0.0.1:1', 'x-berth-csrf': csrf })],
    ['the origin `null` of a sandboxed frame', () => ({ origin: 'null', 'x-berth-csrf': csrf })],
    [
      'an origin with a user name before the host',
      () => ({ origin: `http://${host()}@evil.example`, 'x-berth-csrf': csrf }),
    ],
    [
      'the right origin but Sec-Fetch-Site: cross-site',
      () => ({ origin: gateway.url, 'sec-fetch-site': 'cross-site', 'x-berth-csrf': csrf }),
    ],
    [
      'the right origin but Sec-Fetch-Site: same-site',
      () => ({ origin: gateway.url, 'sec-fetch-site': 'same-site', 'x-berth-csrf': csrf }),
    ],
    ['no origin but Sec-Fetch-Site: none', () => ({ 'sec-fetch-site': 'none', 'x-berth-csrf': csrf })],
  ]
  for (const [what, headers] of refused)
    it(`refuses a change with ${what}`, async () => {
      expect(await change(headers())).to.equal('csrf_refused')
      expect(await language()).to.equal('en')
    })

  it('refuses the content type of forms with a session, but accepts this content type with an API key', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const own = { cookie, origin: gateway.url, 'x-berth-csrf': csrf }
    const body = '{"language":"zh"}'
    const refused = await gateway.request('POST', '/language', {
      key: '',
      headers: { ...own, ...form },
      body,
    })
    expect([refused.status, refused.body.code]).to.deep.equal([415, 'unsupported_media_type'])
    const { name } = await gateway.fleet.addGuest()
    const path = `/containers/${name}/stop`
    const stop = await gateway.request('POST', path, { key: '', headers: { ...own, ...form }, body: '{}' })
    expect(stop.status, 'an optional body').to.equal(415)
    expect(await language()).to.equal('en')
    const taken = await gateway.request('POST', '/language', { headers: form, body })
    expect(taken.status, taken.text).to.equal(200)
    await gateway.request('POST', '/language', { body: { language: 'en' } })
  })

  it('allows reads without a CSRF token', async () => {
    expect((await gateway.request('GET', '/containers', { key: '', headers: { cookie } })).status).to.equal(200)
  })

  it('does not apply to requests with an API key', async () => {
    const headers = { origin: 'https://evil.example' }
    const { status } = await gateway.request('POST', '/language', { headers, body: { language: 'en' } })
    expect(status).to.equal(200)
  })

  it('refuses the CSRF token of another session', async () => {
    const other = await adminBrowser(gateway, 'bob')
    const value = await other.readCsrf()
    expect(await change({ origin: gateway.url, 'x-berth-csrf': value })).to.equal('csrf_refused')
  })

  it('refuses a login from another site', async () => {
    await makeAdmin(gateway, 'mallory')
    const options = { key: '', body: { username: 'mallory', password } }
    for (const headers of [
      { origin: 'https://evil.example' },
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'null' },
    ] as Record<string, string>[]) {
      const { body } = await gateway.request('POST', '/login', { ...options, headers })
      expect(body.code).to.equal('csrf_refused')
    }
    expect((await gateway.request('POST', '/login', options)).status, 'a program').to.equal(200)
  })

  for (const [what, headers] of [
    ['the right origin', () => ({ origin: gateway.url })],
    ['Sec-Fetch-Site: same-origin', () => ({ 'sec-fetch-site': 'same-origin' })],
    [
      'both the right origin and Sec-Fetch-Site: same-origin',
      () => ({ origin: gateway.url, 'sec-fetch-site': 'same-origin' }),
    ],
  ] as const)
    it(`allows a change with the CSRF token and ${what}`, async () => {
      expect(await change({ ...headers(), 'x-berth-csrf': csrf })).to.equal(200)
      await gateway.request('POST', '/language', { body: { language: 'en' } })
    })
})
