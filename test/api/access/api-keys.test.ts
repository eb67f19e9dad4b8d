import { expect } from 'chai'
import { scopeCatalogue } from '../../../gateway/access/scopes.js'
import { boundUuids as uuids, KeyCalls } from '../../support/gateway/key-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('API keys over HTTP', () => {
  let gateway: TestGateway
  let keys: KeyCalls
  before(async () => {
    gateway = await startTestGateway()
    keys = new KeyCalls(gateway)
  })
  after(() => gateway.close())

  it('are created with a secret that is shown only once and does not appear in the list', async () => {
    const body = {
      name: 'billing',
      ip_whitelist: '10.0.0.0/8\n2001:DB8::1',
      scopes: ['container:*', 'task:read'],
      expires_at: '2031-02-03',
      disabled: false,
      container_uuids: [uuids[0].toUpperCase()],
    }
    const { status, body: answer } = await gateway.request('POST', '/api-keys', { body })
    expect(status).to.equal(201)
    const { id, key, ...made } = answer.data
    expect(key).to.match(/^berth_sk_[0-9A-Za-z]{49}$/)
    const shown = {
      name: 'billing',
      prefix: `${String(key).slice(0, 15)}...`,
      scopes: ['container:*', 'task:read'],
      expires_at: '2031-02-03 23:59:59',
      disabled: false,
      container_uuids: [uuids[0]],
    }
    expect(made).to.deep.equal({ ...shown, ip_whitelist: '10.0.0.0/8,2001:db8::1' })
    const { created_at: createdAt, created_by: createdBy, ...listed } = await keys.find(id)
    expect(createdAt).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(createdBy).to.be.a('number')
    expect(listed).to.deep.equal({
      id,
      ...shown,
      ip_whitelist: '10.0.0.0/8,2001:db8::1',
      last_used: '',
      last_used_ip: '',
    })
    expect((await gateway.request('GET', '/api-keys')).text).not.to.contain(key)
  })

  it('get the read-only scopes if the request names no scopes', async () => {
    const { id } = await keys.make({})
    expect((await keys.find(id)).scopes).to.deep.equal([
      'dashboard:read',
      'host:read',
      'routing:read',
      'ipv6:read',
      'task:read',
      'container:read',
      'snapshot:read',
      'image:read',
    ])
  })

  it('can have every scope and every wildcard', async () => {
    const areas = [...new Set(scopeCatalogue.map((scope) => `${scope.split(':')[0]}:*`))]
    const scopes = [...scopeCatalogue, ...areas, '*']
    expect((await keys.find((await keys.make({ scopes })).id)).scopes).to.deep.equal(scopes)
  })

  it('keep the fields that a change omits', async () => {
    const { id } = await keys.make({
      scopes: ['container:read'],
      ip_whitelist: '10.0.0.1',
      expires_at: '2031-01-01 00:00:00',
    })
    const before = await keys.find(id)
    const { status, body } = await gateway.request('PATCH', `/api-keys/${id}`, { body: { name: 'other' } })
    expect(status).to.equal(200)
    expect(body.data).to.have.all.keys('id', 'name', 'prefix', 'scopes', 'expires_at', 'disabled', 'container_uuids')
    expect(await keys.find(id)).to.deep.equal({ ...before, name: 'other' })
    await gateway.request('PATCH', `/api-keys/${id}`, {
      body: { ip_whitelist: '', expires_at: '', container_uuids: [uuids[1]] },
    })
    expect(await keys.find(id)).to.deep.equal({
      ...before,
      name: 'other',
      ip_whitelist: '',
      expires_at: '',
      container_uuids: [uuids[1]],
    })
    const unknown = await gateway.request('PATCH', `/api-keys/${id}`, { body: { unknown: 1 } })
    expect([unknown.status, unknown.body.data.ignored]).to.deep.equal([200, ['unknown']])
  })

  for (const [why, body, code, field] of [
    ['a missing name', {}, 'missing_field', 'name'],
    ['an empty name', { name: '' }, 'invalid_field', 'name'],
    ['a blank name', { name: '  ' }, 'invalid_field', 'name'],
    ['a name of two lines', { name: 'a\nb' }, 'invalid_field', 'name'],
    ['a name with a line separator', { name: 'a\u2028b' }, 'invalid_field', 'name'],
    ['a name that is too long', { name: 'x'.repeat(65) }, 'invalid_field', 'name'],
    ['a name that is not text', { name: 7 }, 'invalid_field', 'name'],
    ['an unknown scope', { name: 'a', scopes: ['container:fly'] }, 'invalid_field', 'scopes'],
    ['scopes that are not a list', { name: 'a', scopes: 5 }, 'invalid_field', 'scopes'],
    ['an empty list of scopes', { name: 'a', scopes: [] }, 'invalid_field', 'scopes'],
    ['an invalid IP address', { name: 'a', ip_whitelist: '10.0.0.256' }, 'invalid_field', 'ip_whitelist'],
    ['an impossible expiry date', { name: 'a', expires_at: '2031-02-30' }, 'invalid_field', 'expires_at'],
    ['an invalid container UUID', { name: 'a', container_uuids: ['x'] }, 'invalid_field', 'container_uuids.0'],
    ['a `disabled` that is not a boolean', { name: 'a', disabled: 'yes' }, 'invalid_field', 'disabled'],
  ] as const)
    it(`are not created with ${why}`, async () => {
      const { status, body: answer } = await gateway.request('POST', '/api-keys', { body })
      expect([status, answer.code, answer.details?.field]).to.deep.equal([400, code, field])
    })

  for (const [why, expires, ms] of [
    ['a time in the format of the API', '2031-02-03 04:05:06', '2031-02-03 04:05:06'],
    ['a time in RFC 3339 format', '2031-02-03T04:05:06+02:00', '2031-02-03 02:05:06'],
    ['a date without a time (end of the day)', '2031-02-03', '2031-02-03 23:59:59'],
    ['a time without seconds', '2031-02-03T04:05', '2031-02-03 04:05:00'],
    ['a number of Unix seconds', 1_927_937_106, '2031-02-04 02:05:06'],
    ['Unix seconds as text', '1927937106', '2031-02-04 02:05:06'],
    ['an empty text (no expiry)', '', ''],
    ['the number 0 (no expiry)', 0, ''],
    ['a date of zeros (no expiry)', '0000-00-00 00:00:00', ''],
  ] as const)
    it(`accept ${why} as their expiry`, async () => {
      expect((await keys.find((await keys.make({ expires_at: expires })).id)).expires_at).to.equal(ms)
    })

  it('cannot be changed or deleted with an unknown or malformed id, and the answer is 404', async () => {
    for (const id of ['999999', '0', '-1', 'abc', '1e3', '99999999999999999999', '%00'])
      for (const method of ['PATCH', 'DELETE'] as const)
        expect(
          await keys.answerTo(method, `/api-keys/${id}`, method === 'PATCH' ? { body: {} } : {}),
          `${method} ${id}`,
        ).to.deep.equal([404, 'not_found'])
  })

  it('are rejected immediately if they are disabled, expired or deleted', async () => {
    const { id, key } = await keys.make({ scopes: ['apikey:read'] })
    expect(await keys.admits(key)).to.equal(200)
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: true } })
    expect(await keys.admits(key)).to.equal('key_disabled')
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: false } })
    expect(await keys.admits(key)).to.equal(200)
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { expires_at: '2020-01-01' } })
    expect(await keys.admits(key)).to.equal('key_expired')
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { expires_at: '', scopes: ['swap:read'] } })
    expect(await keys.admits(key)).to.equal('insufficient_scope')
    await gateway.request('DELETE', `/api-keys/${id}`)
    expect(await keys.admits(key)).to.equal('unauthorized')
    expect(await keys.find(id)).to.equal(undefined)
  })

  it('expire at their date, even without a change of their record in the store', async () => {
    const at = new Date(Date.now() + 4000).toISOString()
    const { key } = await keys.make({ scopes: ['apikey:read'], expires_at: at })
    expect(await keys.admits(key)).to.equal(200)
    await waitFor(async () => (await keys.admits(key)) === 'key_expired')
  })

  it('work only from the IP addresses of their whitelist', async () => {
    const { key } = await keys.make({ scopes: ['apikey:read'], ip_whitelist: '192.0.2.0/24' })
    expect(await keys.answerTo('GET', '/api-keys', { key })).to.deep.equal([403, 'ip_not_allowed'])
    expect(
      await keys.admits((await keys.make({ scopes: ['apikey:read'], ip_whitelist: '192.0.2.1, 127.0.0.1' })).key),
    ).to.equal(200)
  })

  it('can call only the routes of their scopes', async () => {
    const { id } = await keys.make({})
    for (const [scope, ...request] of [
      ['apikey:read', 'GET', '/api-keys'],
      ['apikey:create', 'POST', '/api-keys', { body: { name: 'x' } }],
      ['apikey:update', 'PATCH', `/api-keys/${id}`, { body: {} }],
      ['apikey:delete', 'DELETE', '/api-keys/999'],
      ['audit:read', 'GET', '/audit-logs'],
    ] as const) {
      const others = scopeCatalogue.filter((other) => other !== scope)
      const [without, withIt] = [await keys.make({ scopes: others }), await keys.make({ scopes: [scope] })]
      const [method, path, options] = request
      expect(await keys.answerTo(method, path, { ...options, key: without.key }), scope).to.deep.equal([
        403,
        'insufficient_scope',
      ])
      expect((await keys.answerTo(method, path, { ...options, key: withIt.key }))[1], scope).not.to.equal(
        'unauthorized',
      )
    }
  })

  it('are accepted in X-API-Key, in Authorization, or in both headers if the keys are equal', async () => {
    const { key } = await keys.make({ scopes: ['apikey:read'] })
    const other = await keys.make({ scopes: ['apikey:read'] })
    const ask = async (headers: Record<string, string>) =>
      (await gateway.request('GET', '/api-keys', { key: '', headers })).status
    expect(await ask({ 'x-api-key': key })).to.equal(200)
    expect(await ask({ authorization: `Bearer ${key}` })).to.equal(200)
    expect(await ask({ authorization: `bearer  ${key} ` })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: `Bearer ${key}` })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: 'Basic eDp5' })).to.equal(200)
    expect(await ask({ 'x-api-key': `${key}, ${key}` })).to.equal(200)
    for (const empty of ['', ' ', 'Bearer', 'Bearer  '])
      expect(await ask({ 'x-api-key': key, authorization: empty }), empty).to.equal(200)
    expect(await ask({ 'x-api-key': '', authorization: `Bearer ${key}` })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: `Bearer ${other.key}` })).to.equal(401)
    for (const headers of [
      {},
      { 'x-api-key': '' },
      { 'x-api-key': `${key}x` },
      { 'x-api-key': `${key}, ${other.key}` },
      { 'x-api-key': `${key},` },
      { 'x-api-key': key.toLowerCase() },
      { 'x-api-key': 'x'.repeat(8000) },
      { authorization: key },
      { authorization: `Bearer ${key} ${key}` },
    ])
      expect(await ask(headers), JSON.stringify(headers).slice(0, 80)).to.equal(401)
  })

  it('are refused with the same answer whether they are unknown, malformed or missing', async () => {
    const { id, key } = await keys.make({})
    await gateway.request('DELETE', `/api-keys/${id}`)
    const answers = await Promise.all(
      [key, 'nonsense', ''].map(async (sent) => {
        const { status, body } = await gateway.request('GET', '/api-keys', { key: sent })
        return JSON.stringify([status, { ...body, request_id: '' }])
      }),
    )
    expect(new Set(answers).size).to.equal(1)
  })

  it('show the time and the IP address of their last use', async () => {
    const { id, key } = await keys.make({ scopes: ['apikey:read'] })
    await keys.admits(key)
    const { last_used: lastUsed, last_used_ip: address } = await keys.find(id)
    expect(lastUsed).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(address).to.equal('127.0.0.1')
  })

  it('are listed in pages, sorted and filtered', async () => {
    const name = `paged ${Date.now()}`
    for (let i = 0; i < 3; i++) await keys.make({ name, disabled: i === 1 })
    const { body, headers } = await gateway.request(
      'GET',
      `/api-keys?name=${encodeURIComponent(name)}&sort=-id&page_size=2`,
    )
    expect(headers['x-total-count']).to.equal('3')
    const ids = (body.data as { id: number }[]).map((row) => row.id)
    expect(ids)
      .to.have.length(2)
      .and.to.deep.equal(ids.toSorted((a, b) => b - a))
    const off = await gateway.request('GET', `/api-keys?name=${encodeURIComponent(name)}&disabled=true`)
    expect(off.body.data).to.have.length(1)
  })
})
