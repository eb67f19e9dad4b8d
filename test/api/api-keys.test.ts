import { expect } from 'chai'
import { scopeCatalogue } from '../../gateway/access/scopes.js'
import type { Body } from '../support/body.js'
import { startTestGateway, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

const uuids = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'] as const

describe('API keys over HTTP', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  interface Made {
    id: number
    key: string
  }
  const make = async (fields: object, key?: string): Promise<Made> => {
    const reply = await gateway.request('POST', '/api-keys', {
      body: { name: 'made', ...fields },
      ...(key === undefined ? {} : { key }),
    })
    expect(reply.status, reply.text).to.equal(201)
    return reply.body.data as Made
  }
  const find = async (id: number): Promise<Body> =>
    ((await gateway.request('GET', '/api-keys')).body.data as { id: number }[]).find((row) => row.id === id)
  const answerTo = async (
    ...request: Parameters<TestGateway['request']>
  ): Promise<[number, string | undefined]> => {
    const { status, body } = await gateway.request(...request)
    return [status, body.code as string | undefined]
  }
  /** 200, or the code of the refusal. */
  const admits = async (key: string): Promise<string | number> => {
    const [status, code] = await answerTo('GET', '/api-keys', { key })
    return code ?? status
  }

  it('makes a key, shows it once, and lists it in short', async () => {
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
    const { created_at: createdAt, created_by: createdBy, ...listed } = await find(id)
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

  it('gives the read-only scopes when none are named', async () => {
    const { id } = await make({})
    expect((await find(id)).scopes).to.deep.equal([
      ...['dashboard:read', 'host:read', 'routing:read', 'ipv6:read'],
      ...['task:read', 'container:read', 'snapshot:read', 'image:read'],
    ])
  })

  it('takes every scope there is, and every wildcard', async () => {
    const areas = [...new Set(scopeCatalogue.map((scope) => `${scope.split(':')[0]}:*`))]
    const scopes = [...scopeCatalogue, ...areas, '*']
    expect((await find((await make({ scopes })).id)).scopes).to.deep.equal(scopes)
  })

  it('changes only what is sent', async () => {
    const { id } = await make({
      scopes: ['container:read'],
      ip_whitelist: '10.0.0.1',
      expires_at: '2031-01-01 00:00:00',
    })
    const before = await find(id)
    const { status, body } = await gateway.request('PATCH', `/api-keys/${id}`, { body: { name: 'other' } })
    expect(status).to.equal(200)
    expect(body.data).to.have.all.keys(
      'id',
      'name',
      'prefix',
      'scopes',
      'expires_at',
      'disabled',
      'container_uuids',
    )
    expect(await find(id)).to.deep.equal({ ...before, name: 'other' })
    await gateway.request('PATCH', `/api-keys/${id}`, {
      body: { ip_whitelist: '', expires_at: '', container_uuids: [uuids[1]] },
    })
    expect(await find(id)).to.deep.equal({
      ...before,
      ...{ name: 'other', ip_whitelist: '', expires_at: '', container_uuids: [uuids[1]] },
    })
    expect((await gateway.request('PATCH', `/api-keys/${id}`, { body: { unknown: 1 } })).status).to.equal(200)
  })

  for (const [why, body, code, field] of [
    ['no name', {}, 'missing_field', 'name'],
    ['an empty name', { name: '' }, 'invalid_field', 'name'],
    ['a blank name', { name: '  ' }, 'invalid_field', 'name'],
    ['a name of two lines', { name: 'a\nb' }, 'invalid_field', 'name'],
    ['a name with a line separator', { name: 'a\u2028b' }, 'invalid_field', 'name'],
    ['a name that is too long', { name: 'x'.repeat(65) }, 'invalid_field', 'name'],
    ['a name that is no text', { name: 7 }, 'invalid_field', 'name'],
    ['an unknown scope', { name: 'a', scopes: ['container:fly'] }, 'invalid_field', 'scopes'],
    ['scopes that are no list', { name: 'a', scopes: '*' }, 'invalid_field', 'scopes'],
    ['a bad address', { name: 'a', ip_whitelist: '10.0.0.256' }, 'invalid_field', 'ip_whitelist'],
    ['a bad time', { name: 'a', expires_at: '2031-02-30' }, 'invalid_field', 'expires_at'],
    ['a bad uuid', { name: 'a', container_uuids: ['x'] }, 'invalid_field', 'container_uuids.0'],
    ['a bad flag', { name: 'a', disabled: 'yes' }, 'invalid_field', 'disabled'],
  ] as const)
    it(`refuses ${why}`, async () => {
      const { status, body: answer } = await gateway.request('POST', '/api-keys', { body })
      expect([status, answer.code, answer.details?.field]).to.deep.equal([400, code, field])
    })

  for (const [why, expires, ms] of [
    ['a local time', '2031-02-03 04:05:06', '2031-02-03 04:05:06'],
    ['RFC 3339', '2031-02-03T04:05:06+02:00', '2031-02-03 02:05:06'],
    ['a date', '2031-02-03', '2031-02-03 23:59:59'],
    ['nothing', '', ''],
  ] as const)
    it(`reads ${why} as expiry`, async () => {
      expect((await find((await make({ expires_at: expires })).id)).expires_at).to.equal(ms)
    })

  it('answers 404 for a key that is not there, whatever its id', async () => {
    for (const id of ['999999', '0', '-1', 'abc', '1e3', '99999999999999999999', '%00'])
      for (const method of ['PATCH', 'DELETE'] as const)
        expect(
          await answerTo(method, `/api-keys/${id}`, method === 'PATCH' ? { body: {} } : {}),
          `${method} ${id}`,
        ).to.deep.equal([404, 'not_found'])
  })

  it('stops a key with the next request: disabled, expired, deleted', async () => {
    const { id, key } = await make({ scopes: ['apikey:read'] })
    expect(await admits(key)).to.equal(200)
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: true } })
    expect(await admits(key)).to.equal('key_disabled')
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: false } })
    expect(await admits(key)).to.equal(200)
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { expires_at: '2020-01-01' } })
    expect(await admits(key)).to.equal('key_expired')
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { expires_at: '', scopes: [] } })
    expect(await admits(key)).to.equal('insufficient_scope')
    await gateway.request('DELETE', `/api-keys/${id}`)
    expect(await admits(key)).to.equal('unauthorized')
    expect(await find(id)).to.equal(undefined)
  })

  it('stops a key in time, without being told', async () => {
    const at = new Date(Date.now() + 1500).toISOString()
    const { key } = await make({ scopes: ['apikey:read'], expires_at: at })
    expect(await admits(key)).to.equal(200)
    await waitFor(async () => (await admits(key)) === 'key_expired', { timeoutMs: 3000 })
  })

  it('lets a key in from its addresses only', async () => {
    const { key } = await make({ scopes: ['apikey:read'], ip_whitelist: '192.0.2.0/24' })
    expect(await answerTo('GET', '/api-keys', { key })).to.deep.equal([403, 'ip_not_allowed'])
    expect(
      await admits((await make({ scopes: ['apikey:read'], ip_whitelist: '192.0.2.1, 127.0.0.1' })).key),
    ).to.equal(200)
  })

  it('keeps its routes to their scopes', async () => {
    const { id } = await make({})
    for (const [scope, ...request] of [
      ['apikey:read', 'GET', '/api-keys'],
      ['apikey:create', 'POST', '/api-keys', { body: { name: 'x' } }],
      ['apikey:update', 'PATCH', `/api-keys/${id}`, { body: {} }],
      ['apikey:delete', 'DELETE', '/api-keys/999'],
      ['audit:read', 'GET', '/audit-logs'],
    ] as const) {
      const others = scopeCatalogue.filter((other) => other !== scope)
      const [without, withIt] = [await make({ scopes: others }), await make({ scopes: [scope] })]
      const [method, path, options] = request
      expect(await answerTo(method, path, { ...options, key: without.key }), scope).to.deep.equal([
        403,
        'insufficient_scope',
      ])
      expect((await answerTo(method, path, { ...options, key: withIt.key }))[1], scope).not.to.equal(
        'unauthorized',
      )
    }
  })

  it('takes either header, or both with the same key', async () => {
    const { key } = await make({ scopes: ['apikey:read'] })
    const other = await make({ scopes: ['apikey:read'] })
    const ask = async (headers: Record<string, string>) =>
      (await gateway.request('GET', '/api-keys', { key: '', headers })).status
    expect(await ask({ 'x-api-key': key })).to.equal(200)
    expect(await ask({ authorization: `Bearer ${key}` })).to.equal(200)
    expect(await ask({ authorization: `bearer  ${key} ` })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: `Bearer ${key}` })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: 'Basic eDp5' })).to.equal(200)
    expect(await ask({ 'x-api-key': key, authorization: `Bearer ${other.key}` })).to.equal(401)
    for (const headers of [
      {},
      { 'x-api-key': '' },
      { 'x-api-key': `${key}x` },
      { 'x-api-key': `${key}, ${key}` },
      { 'x-api-key': key.toLowerCase() },
      { 'x-api-key': 'x'.repeat(8000) },
      { authorization: key },
      { authorization: `Bearer ${key} ${key}` },
    ])
      expect(await ask(headers), JSON.stringify(headers).slice(0, 80)).to.equal(401)
  })

  it('answers the same words whether a key is unknown, malformed or missing', async () => {
    const { id, key } = await make({})
    await gateway.request('DELETE', `/api-keys/${id}`)
    const answers = await Promise.all(
      [key, 'nonsense', ''].map(async (sent) => {
        const { status, body } = await gateway.request('GET', '/api-keys', { key: sent })
        return JSON.stringify([status, { ...body, request_id: '' }])
      }),
    )
    expect(new Set(answers).size).to.equal(1)
  })

  it('notes when and from where a key was last used', async () => {
    const { id, key } = await make({ scopes: ['apikey:read'] })
    await admits(key)
    const { last_used: lastUsed, last_used_ip: address } = await find(id)
    expect(lastUsed).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(address).to.equal('127.0.0.1')
  })

  it('pages, sorts and filters the list', async () => {
    const name = `paged ${Date.now()}`
    for (let i = 0; i < 3; i++) await make({ name, disabled: i === 1 })
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

  it('made while its unlimited maker is deleted works, or was never made', async () => {
    for (let round = 0; round < 30; round++) {
      const maker = await make({ scopes: ['*'] })
      const making = gateway.request('POST', '/api-keys', { key: maker.key, body: { name: 'late' } })
      if (round % 3 > 0) await new Promise((resolve) => setTimeout(resolve, round / 10))
      const [made] = await Promise.all([making, gateway.request('DELETE', `/api-keys/${maker.id}`)])
      if (made.status !== 201) expect([401, 404], made.text).to.include(made.status)
      else
        expect((await answerTo('GET', '/dashboard', { key: made.body.data.key }))[0], `${round}`).to.equal(
          200,
        )
    }
  })

  describe('made by a limited key', () => {
    const grants = {
      scopes: ['container:*', 'apikey:*'],
      container_uuids: [...uuids],
      ip_whitelist: '127.0.0.0/8',
    }

    it('hold no more than it, and shrink with it', async () => {
      const parent = await make({ ...grants, expires_at: '2031-01-01' })
      for (const [field, fields] of [
        ['scopes', { scopes: ['*'] }],
        ['scopes', { scopes: ['swap:read'] }],
        ['container_uuids', { scopes: [], container_uuids: [] }],
        ['ip_whitelist', { scopes: [], ip_whitelist: '10.0.0.1' }],
        ['expires_at', { scopes: [], expires_at: '' }],
      ] as const) {
        const { status, body } = await gateway.request('POST', '/api-keys', {
          key: parent.key,
          body: { name: 'x', ...fields },
        })
        expect([status, body.code, body.details?.field]).to.deep.equal([403, 'insufficient_scope', field])
      }
      const child = await make({ scopes: ['apikey:read', 'apikey:create'] }, parent.key)
      expect(await find(child.id)).to.deep.include({
        container_uuids: [...uuids],
        ip_whitelist: '127.0.0.0/8',
        created_by: parent.id,
      })
      const grandchild = await make({ scopes: ['apikey:read'] }, child.key)
      expect(await admits(grandchild.key)).to.equal(200)
      await gateway.request('PATCH', `/api-keys/${parent.id}`, { body: { scopes: ['container:*'] } })
      expect(await admits(grandchild.key)).to.equal('insufficient_scope')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { scopes: ['apikey:*'], disabled: true },
      })
      expect(await admits(grandchild.key)).to.equal('key_disabled')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { disabled: false, ip_whitelist: '192.0.2.1' },
      })
      expect(await admits(grandchild.key)).to.equal('ip_not_allowed')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { ip_whitelist: '', expires_at: '2020-01-01' },
      })
      expect(await admits(grandchild.key)).to.equal('key_expired')
    })

    it('go with it', async () => {
      const parent = await make(grants)
      const child = await make({ scopes: ['apikey:*'] }, parent.key)
      const grandchild = await make({ scopes: ['apikey:read'] }, child.key)
      const { body } = await gateway.request('DELETE', `/api-keys/${parent.id}`)
      expect(body.message).to.contain(`${child.id}, ${grandchild.id}`)
      for (const key of [child.key, grandchild.key]) expect(await admits(key)).to.equal('unauthorized')
    })

    it('are all it sees, with those within it, when it is bound to containers', async () => {
      const parent = await make(grants)
      const within = await make({ ...grants, scopes: ['container:read'], container_uuids: [uuids[0]] })
      const outside = await make({ scopes: ['container:read'] })
      const child = await make({ scopes: ['container:read'] }, parent.key)
      const { body } = await gateway.request('GET', '/api-keys', { key: parent.key })
      const ids = (body.data as { id: number }[]).map((row) => row.id)
      expect(ids).to.include.members([within.id, child.id])
      for (const hidden of [outside.id, parent.id, 1]) expect(ids).not.to.include(hidden)
      for (const hidden of [outside.id, 1])
        expect(
          await answerTo('PATCH', `/api-keys/${hidden}`, { key: parent.key, body: { disabled: true } }),
        ).to.deep.equal([404, 'not_found'])
    })
  })

  it('never lets a key change itself, nor the last administrator go', async () => {
    const { id, key } = await make({ scopes: ['*'] })
    expect(await answerTo('PATCH', `/api-keys/${id}`, { key, body: { name: 'x' } })).to.deep.equal([
      403,
      'insufficient_scope',
    ])
    expect(await answerTo('DELETE', `/api-keys/${id}`, { key })).to.deep.equal([403, 'insufficient_scope'])
    const own = await startTestGateway()
    try {
      for (const [method, options] of [
        ['DELETE', {}],
        ['PATCH', { body: { disabled: true } }],
        ['PATCH', { body: { scopes: [] } }],
        ['PATCH', { body: { expires_at: '2031-01-01' } }],
      ] as const) {
        const { status, body } = await own.request(method, '/api-keys/1', options)
        expect([status, body.code], JSON.stringify(options)).to.deep.equal([409, 'invalid_state'])
      }
    } finally {
      await own.close()
    }
  })

  it('lets a new administrator take over from the first', async () => {
    const own = await startTestGateway()
    try {
      const heir = (await own.request('POST', '/api-keys', { body: { name: 'heir', scopes: ['*'] } })).body
        .data
      const child = (
        await own.request('POST', '/api-keys', { body: { name: 'child', scopes: ['apikey:read'] } })
      ).body.data
      const by = { key: heir.key as string }
      // What the first one made would stop with it, the heir too.
      const refused = await own.request('PATCH', '/api-keys/1', { ...by, body: { disabled: true } })
      expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
      expect((await own.request('DELETE', '/api-keys/1', by)).status).to.equal(200)
      expect((await own.request('GET', '/api-keys')).status).to.equal(401)
      const { body } = await own.request('GET', '/api-keys', { key: child.key })
      expect((body.data as { created_by: number }[]).map((row) => row.created_by)).to.deep.equal([0, 0])
    } finally {
      await own.close()
    }
  })
})
