import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** A PNG file of one transparent pixel. */
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

const [inside, outside] = ['192.0.2.5', '203.0.113.9']

describe('the API for settings of the installation', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
  })
  after(() => gateway.close())

  const via = (address: string) => ({ headers: { 'x-forwarded-for': address } })
  const put = (path: string, body: unknown, options = {}) => gateway.request('PUT', path, { body, ...options })
  const refusalOf = async (work: ReturnType<typeof put>): Promise<unknown> => {
    const { status, body } = await work
    return [status, body.code, body.details?.field] as unknown
  }

  describe('for the access policy', () => {
    const sources = ['192.0.2.0/24']
    afterEach(() => put('/access-policy', { enabled: false, allowed_sources: [], trusted_proxies: [] }))

    it('starts with a disabled policy, and shows the address of the caller', async () => {
      const { body } = await gateway.request('GET', '/access-policy', via(inside))
      expect(body.data).to.deep.equal({
        enabled: false,
        allowed_sources: [],
        trusted_proxies: [],
        current_source: inside,
      })
    })

    it('rejects callers from unlisted addresses, except for health checks', async () => {
      const { body } = await put('/access-policy', { enabled: 'true', allowed_sources: '192.0.2.77/24' })
      expect(body.data).to.deep.include({ enabled: true, allowed_sources: sources })
      for (const path of ['/containers', '/language', '/nothing', '/docs', '/openapi.json', '/metrics']) {
        const { status, body } = await gateway.request('GET', path, via(outside))
        expect([status, body?.code], path).to.deep.equal([403, 'access_policy_denied'])
      }
      expect((await gateway.request('GET', '/containers', via(inside))).status).to.equal(200)
      for (const path of ['/healthz', '/readyz'])
        expect((await gateway.request('GET', path, via(outside))).status, path).to.equal(200)
    })

    it('refuses a change that would lock out the caller or all clients', async () => {
      const on = { enabled: true, allowed_sources: sources }
      expect(await refusalOf(put('/access-policy', on, via(outside)))).to.deep.equal([
        400,
        'access_policy_lockout',
        'allowed_sources',
      ])
      expect(await refusalOf(put('/access-policy', { enabled: true, allowed_sources: [] }))).to.deep.equal([
        400,
        'access_policy_lockout',
        'allowed_sources',
      ])
      expect(await refusalOf(put('/access-policy', { trusted_proxies: ['0.0.0.0/0'] }))).to.deep.equal([
        400,
        'invalid_field',
        'trusted_proxies',
      ])
      expect(await refusalOf(put('/access-policy', { allowed_sources: ['10.0.0.300'] }))).to.deep.equal([
        400,
        'invalid_field',
        'allowed_sources',
      ])
      expect((await gateway.request('GET', '/access-policy')).body.data.enabled).to.equal(false)
      expect((await put('/access-policy', on, via(inside))).status).to.equal(200)
    })

    it('keeps the list of addresses if a change contains an empty list of addresses', async () => {
      await put('/access-policy', { enabled: true, allowed_sources: sources })
      for (const nothing of [null, ',,,', '', [''], ['', ' ']]) {
        const { body } = await put('/access-policy', { allowed_sources: nothing })
        expect(body.data, JSON.stringify(nothing)).to.deep.include({
          enabled: true,
          allowed_sources: sources,
        })
      }
    })

    it('admits only administrators, and records changes in the audit log', async () => {
      const key = await gateway.makeKey({ scopes: ['host:*'] })
      expect((await gateway.request('GET', '/access-policy', { key })).status).to.equal(403)
      await put('/access-policy', { allowed_sources: sources })
      const { body } = await gateway.request('GET', '/audit-logs?action=access_policy.update')
      expect(body.data[0]).to.include({ success: true, detail: 'off, 192.0.2.0/24' })
    })
  })

  it('shows the language to every caller, but lets only administrators change the language', async () => {
    const key = await gateway.makeKey({ scopes: ['container:read'] })
    const read = async (): Promise<unknown> => (await gateway.request('GET', '/language', { key })).body.data
    expect(await read()).to.deep.equal({ language: 'en' })
    expect((await put('/language', { language: 'ZH' })).body.data).to.deep.equal({ language: 'zh' })
    expect(await read()).to.deep.equal({ language: 'zh' })
    const answer = await gateway.request('POST', '/language', { body: { language: 'en' } })
    expect(answer.body.data).to.deep.equal({ language: 'en' })
    expect((await put('/language', { language: 'en' }, { key })).status).to.equal(403)
    expect(await refusalOf(put('/language', { language: 'xx' }))).to.deep.equal([400, 'invalid_field', 'language'])
  })

  it('stores the name and the logo of the provider, and refuses pictures that are not PNG files', async () => {
    const set = await put('/branding', { name: ' Example <Hosting> ', logo: pixel })
    expect(set.body.data.name, set.text).to.equal('Example <Hosting>')
    expect(set.body.data.logo_url).to.match(/^\/brand\/logo-[0-9a-f]{16}\.png$/)
    expect((await put('/branding', { name: 'Other' })).body.data.logo_url, 'unchanged').to.equal(set.body.data.logo_url)
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>').toString('base64')
    expect(await refusalOf(put('/branding', { logo: svg }))).to.deep.equal([400, 'invalid_field', 'logo'])
    expect(await refusalOf(put('/branding', { name: 'a\nb' }))).to.deep.equal([400, 'invalid_field', 'name'])
    const { body } = await put('/branding', { name: '', logo: '' })
    expect(body.data).to.deep.equal({ name: '', logo_url: '' })
    const { body: audit } = await gateway.request('GET', '/audit-logs?action=branding.update&page_size=1')
    expect(audit.data[0].detail).to.equal('name not set, logo none')
  })

  it('shows each allowed WebSSH origin only once in canonical form, and shows the origin of the request', async () => {
    const wanted = ['https://Panel.example/', 'https://panel.example:443', 'http://127.0.0.1:8080']
    const origins = ['https://panel.example', 'http://127.0.0.1:8080']
    const { body } = await put('/webssh-origins', { origins: wanted }, { headers: { origin: 'https://a.example' } })
    expect(body.data).to.deep.equal({ origins, current_origin: 'https://a.example' })
    const read = async (): Promise<unknown> => (await gateway.request('GET', '/webssh-origins')).body.data
    expect(await read()).to.deep.equal({ origins, current_origin: gateway.url })
    for (const bad of ['panel.example', 'ftp://x', 'https://a@b', 'https://a/path', 'https://a?b', 'null', '*'])
      expect(await refusalOf(put('/webssh-origins', { origins: [bad] })), bad).to.deep.equal([
        400,
        'invalid_field',
        'origins.0',
      ])
    expect((await put('/webssh-origins', { origins: [] })).body.data.origins).to.deep.equal([])
  })

  describe('for the public URL', () => {
    after(() => put('/public-url', { public_url: '' }))

    it('starts with an empty URL', async () => {
      const { body } = await gateway.request('GET', '/public-url')
      expect(body.data).to.deep.equal({ public_url: '', effective_url: '', source: 'none' })
    })

    it('uses the URL in links for customers and new administrators', async () => {
      const { body } = await put('/public-url', { public_url: 'https://Panel.example.com/' })
      const url = 'https://panel.example.com'
      expect(body.data).to.deep.equal({ public_url: url, effective_url: url, source: 'set' })
      const { name } = await gateway.fleet.addGuest()
      const made = await gateway.request('POST', '/sub-user/create', { body: { container_name: name } })
      const { id, access_code: code, link } = made.body.data
      expect(link).to.equal(`${url}/u/${code}`)
      const { body: list } = await gateway.request('GET', '/sub-users')
      const rows = list.data as { id: string; link: string }[]
      expect(rows.find((one) => one.id === id)?.link).to.equal(link)
      const rotated = await gateway.request('POST', `/sub-users/${id}/rotate-password`, {
        body: { rotate_code: true },
      })
      expect(rotated.body.data.link).to.equal(`${url}/u/${rotated.body.data.access_code}`)
      const admin = await gateway.request('POST', '/admins', { body: { username: 'grace' } })
      expect(admin.body.data.setup_link).to.equal(`${url}/setup#${admin.body.data.setup_token}`)
    })

    it('refuses a URL that is incomplete or that other machines cannot reach', async () => {
      for (const bad of ['http://127.0.0.1:8080', 'http://localhost', 'panel.example.com', 'ftp://x', 'https://x/y'])
        expect(await refusalOf(put('/public-url', { public_url: bad })), bad).to.deep.equal([
          400,
          'invalid_field',
          'public_url',
        ])
      expect(await refusalOf(put('/public-url', {}))).to.deep.equal([400, 'missing_field', 'public_url'])
    })
  })

  describe('for automatic balancing', () => {
    const patch = (body: object) => gateway.request('PATCH', '/balance-settings', { body })
    const defaults = {
      enabled: false,
      reasons: ['rule', 'load'],
      interval_minutes: 15,
      parallel: 1,
      min_gain: 10,
      window_start: '00:00',
      window_end: '00:00',
      pause_hours: 24,
      change_addresses: false,
    }

    it('is disabled by default, and GET /fleet/balance/automatic reports this', async () => {
      expect((await gateway.request('GET', '/balance-settings')).body.data).to.deep.equal(defaults)
      expect((await gateway.request('GET', '/fleet/balance')).body.data).to.deep.equal([])
      const { body } = await gateway.request('GET', '/fleet/balance/automatic')
      expect(body.data).to.deep.include({ enabled: false, waits_for: 'disabled', moves: [], refused: [] })
    })

    it('changes the sent fields only, and writes them to the audit log', async () => {
      const change = { reasons: ['rule'], window_start: '22:00', window_end: '05:00' }
      expect((await patch(change)).body.data).to.deep.equal({ ...defaults, ...change })
      expect((await patch({ enabled: true })).body.data).to.deep.equal({ ...defaults, ...change, enabled: true })
      const { body } = await gateway.request('GET', '/audit-logs?action=balance_settings.update')
      const entries = body.data as { detail: string }[]
      expect(entries.map(({ detail }) => detail)).to.deep.equal([
        'enabled true',
        'reasons rule, window_start 22:00, window_end 05:00',
      ])
      await patch(defaults)
    })

    for (const [field, value] of [
      ['reasons', []],
      ['reasons', ['other']],
      ['interval_minutes', 0],
      ['parallel', 6],
      ['min_gain', 4],
      ['window_start', '24:00'],
      ['pause_hours', 0],
    ] as const)
      it(`refuses ${JSON.stringify(value)} as ${field}`, async () => {
        const { status, body } = await patch({ [field]: value })
        const refused = String(body.details.field).split('.')[0]
        expect([status, body.code, refused]).to.deep.equal([400, 'invalid_field', field])
      })
  })
})
