import { expect } from 'chai'
import { boundUuids as uuids, KeyCalls } from '../../support/gateway/key-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('API keys that other keys create', () => {
  let gateway: TestGateway
  let keys: KeyCalls
  before(async () => {
    gateway = await startTestGateway()
    keys = new KeyCalls(gateway)
  })
  after(() => gateway.close())

  it('either work or are refused with 401 or 404 if their creator is deleted during their creation', async () => {
    for (let round = 0; round < 30; round++) {
      const maker = await keys.make({ scopes: ['*'] })
      const making = gateway.request('POST', '/api-keys', { key: maker.key, body: { name: 'late' } })
      if (round % 3 > 0) await new Promise((resolve) => setTimeout(resolve, round / 10))
      const [made] = await Promise.all([making, gateway.request('DELETE', `/api-keys/${maker.id}`)])
      if (made.status !== 201) expect([401, 404], made.text).to.include(made.status)
      else expect((await keys.answerTo('GET', '/dashboard', { key: made.body.data.key }))[0], `${round}`).to.equal(200)
    }
  })

  describe('if their creator has restricted rights', () => {
    const grants = {
      scopes: ['container:*', 'apikey:*'],
      container_uuids: [...uuids],
      ip_whitelist: '127.0.0.0/8',
    }

    it('have at most the rights of their creator, and lose each right that their creator loses', async () => {
      const parent = await keys.make({ ...grants, expires_at: '2031-01-01' })
      for (const [field, fields] of [
        ['scopes', { scopes: ['*'] }],
        ['scopes', { scopes: ['swap:read'] }],
        ['container_uuids', { container_uuids: [] }],
        ['ip_whitelist', { ip_whitelist: '10.0.0.1' }],
        ['expires_at', { expires_at: '' }],
      ] as const) {
        const { status, body } = await gateway.request('POST', '/api-keys', {
          key: parent.key,
          body: { name: 'x', ...fields },
        })
        expect([status, body.code, body.details?.field]).to.deep.equal([403, 'insufficient_scope', field])
      }
      const child = await keys.make({ scopes: ['apikey:read', 'apikey:create'] }, parent.key)
      expect(await keys.find(child.id)).to.deep.include({
        container_uuids: [...uuids],
        ip_whitelist: '127.0.0.0/8',
        created_by: parent.id,
      })
      const grandchild = await keys.make({ scopes: ['apikey:read'] }, child.key)
      expect(await keys.admits(grandchild.key)).to.equal(200)
      await gateway.request('PATCH', `/api-keys/${parent.id}`, { body: { scopes: ['container:*'] } })
      expect(await keys.admits(grandchild.key)).to.equal('insufficient_scope')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { scopes: ['apikey:*'], disabled: true },
      })
      expect(await keys.admits(grandchild.key)).to.equal('key_disabled')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { disabled: false, ip_whitelist: '192.0.2.1' },
      })
      expect(await keys.admits(grandchild.key)).to.equal('ip_not_allowed')
      await gateway.request('PATCH', `/api-keys/${parent.id}`, {
        body: { ip_whitelist: '', expires_at: '2020-01-01' },
      })
      expect(await keys.admits(grandchild.key)).to.equal('key_expired')
    })

    it('are deleted together with their creator', async () => {
      const parent = await keys.make(grants)
      const child = await keys.make({ scopes: ['apikey:*'] }, parent.key)
      const grandchild = await keys.make({ scopes: ['apikey:read'] }, child.key)
      const { body } = await gateway.request('DELETE', `/api-keys/${parent.id}`)
      expect(body.message).to.contain(`${child.id}, ${grandchild.id}`)
      for (const key of [child.key, grandchild.key]) expect(await keys.admits(key)).to.equal('unauthorized')
    })

    it('are visible to their creator, which sees no other keys except keys for its own containers', async () => {
      const parent = await keys.make(grants)
      const within = await keys.make({ ...grants, scopes: ['container:read'], container_uuids: [uuids[0]] })
      const outside = await keys.make({ scopes: ['container:read'] })
      const child = await keys.make({ scopes: ['container:read'] }, parent.key)
      const { body } = await gateway.request('GET', '/api-keys', { key: parent.key })
      const ids = (body.data as { id: number }[]).map((row) => row.id)
      expect(ids).to.include.members([within.id, child.id])
      for (const hidden of [outside.id, parent.id, 1]) expect(ids).not.to.include(hidden)
      for (const hidden of [outside.id, 1])
        expect(
          await keys.answerTo('PATCH', `/api-keys/${hidden}`, { key: parent.key, body: { disabled: true } }),
        ).to.deep.equal([404, 'not_found'])
    })
  })

  it('can neither change themselves nor remove the last administrator key', async () => {
    const { id, key } = await keys.make({ scopes: ['*'] })
    expect(await keys.answerTo('PATCH', `/api-keys/${id}`, { key, body: { name: 'x' } })).to.deep.equal([
      403,
      'insufficient_scope',
    ])
    expect(await keys.answerTo('DELETE', `/api-keys/${id}`, { key })).to.deep.equal([403, 'insufficient_scope'])
    const own = await startTestGateway()
    try {
      const limited = await own.makeKey({ scopes: ['apikey:*'] })
      for (const body of [{ disabled: true }, { scopes: ['apikey:read'] }, {}]) {
        const { status, body: answer } = await own.request('PATCH', '/api-keys/1', { key: limited, body })
        expect([status, answer.code], 'beyond its rights').to.deep.equal([403, 'insufficient_scope'])
      }
      for (const [method, options] of [
        ['DELETE', {}],
        ['PATCH', { body: { disabled: true } }],
        ['PATCH', { body: { scopes: ['container:*'] } }],
        ['PATCH', { body: { expires_at: '2031-01-01' } }],
      ] as const) {
        const { status, body } = await own.request(method, '/api-keys/1', options)
        expect([status, body.code], JSON.stringify(options)).to.deep.equal([409, 'invalid_state'])
      }
    } finally {
      await own.close()
    }
  })

  it('can replace the first administrator key if they have all rights', async () => {
    const own = await startTestGateway()
    try {
      const heir = (await own.request('POST', '/api-keys', { body: { name: 'heir', scopes: ['*'] } })).body.data
      const child = (await own.request('POST', '/api-keys', { body: { name: 'child', scopes: ['apikey:read'] } })).body
        .data
      const by = { key: heir.key as string }
      // Disabling the first key would also disable the key of this request, which the first key created.
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
