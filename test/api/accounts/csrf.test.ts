import { expect } from 'chai'
import { adminBrowser, Browser, password, makeAdmin } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('pages of other sites', () => {
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
    ['only the cookie', () => ({})],
    ['an own origin without the value', () => ({ origin: gateway.url })],
    ['the value without an origin', () => ({ 'x-berth-csrf': csrf })],
    ['a wrong value', () => ({ origin: gateway.url, 'x-berth-csrf': 'A'.repeat(43) })],
    ['an empty value', () => ({ origin: gateway.url, 'x-berth-csrf': '' })],
    ['another site’s origin', () => ({ origin: 'https://evil.example', 'x-berth-csrf': csrf })],
    ['another port', () => ({ origin: 'http://127.0.0.1:1', 'x-berth-csrf': csrf })],
    ['no origin, like a sandboxed frame', () => ({ origin: 'null', 'x-berth-csrf': csrf })],
    ['an origin with a user', () => ({ origin: `http://${host()}@evil.example`, 'x-berth-csrf': csrf })],
    [
      'an own origin, sent across sites',
      () => ({ origin: gateway.url, 'sec-fetch-site': 'cross-site', 'x-berth-csrf': csrf }),
    ],
    [
      'an own origin, sent by a sister site',
      () => ({ origin: gateway.url, 'sec-fetch-site': 'same-site', 'x-berth-csrf': csrf }),
    ],
    ['a typed address', () => ({ 'sec-fetch-site': 'none', 'x-berth-csrf': csrf })],
  ]
  for (const [what, headers] of refused)
    it(`change nothing with ${what}`, async () => {
      expect(await change(headers())).to.equal('csrf_refused')
      expect(await language()).to.equal('en')
    })

  it('cannot send a form, although a key may send one as JSON', async () => {
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

  it('can be read without a CSRF token', async () => {
    expect((await gateway.request('GET', '/containers', { key: '', headers: { cookie } })).status).to.equal(200)
  })

  it('do not affect keys', async () => {
    const headers = { origin: 'https://evil.example' }
    const { status } = await gateway.request('POST', '/language', { headers, body: { language: 'en' } })
    expect(status).to.equal(200)
  })

  it('cannot use the CSRF token of another session', async () => {
    const other = await adminBrowser(gateway, 'bob')
    const value = await other.readCsrf()
    expect(await change({ origin: gateway.url, 'x-berth-csrf': value })).to.equal('csrf_refused')
  })

  it('cannot log anybody in', async () => {
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
    ['its origin', () => ({ origin: gateway.url })],
    ['the Sec-Fetch-Site header', () => ({ 'sec-fetch-site': 'same-origin' })],
    ['both', () => ({ origin: gateway.url, 'sec-fetch-site': 'same-origin' })],
  ] as const)
    it(`are foreign pages, which cannot change anything with ${what} and the CSRF token`, async () => {
      expect(await change({ ...headers(), 'x-berth-csrf': csrf })).to.equal(200)
      await gateway.request('POST', '/language', { body: { language: 'en' } })
    })
})
