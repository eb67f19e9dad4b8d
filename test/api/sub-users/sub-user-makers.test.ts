import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type RequestOptions, type TestGateway } from '../../support/gateway/test-gateway.js'

describe('the sub-users of a key with restricted rights', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let [one, two]: Guest[] = []
  before(async () => {
    gateway = await startTestGateway()
    calls = new SubUserCalls(gateway)
  })
  after(() => gateway.close())
  beforeEach(async () => {
    one = await gateway.fleet.addGuest({ name: 'one' })
    two = await gateway.fleet.addGuest({ name: 'two' })
  })
  afterEach(() => calls.clear())

  const create = (body: object, options: RequestOptions) =>
    gateway.request('POST', '/sub-user/create', { ...options, body })
  const refusalOf = async (work: ReturnType<typeof create>): Promise<unknown> => {
    const { status, body } = await work
    return [status, body.code, body.details?.field] as unknown
  }
  const all = ['subuser:*', 'container:*', 'snapshot:*', 'image:read', 'task:read', 'terminal:*', 'audit:read']

  it('have all permissions of the key by default, and never more permissions', async () => {
    const key = await gateway.makeKey({ scopes: ['subuser:create', 'container:read', 'snapshot:*'] })
    expect(await refusalOf(create({ container_name: 'one', permissions: ['container:power'] }, { key }))).to.deep.equal(
      [403, 'insufficient_scope', 'permissions'],
    )
    expect(
      await refusalOf(create({ container_name: 'one', permissions: ['container:network:inner'] }, { key })),
    ).to.deep.equal([403, 'insufficient_scope', 'permissions'])
    const { id } = await calls.make({ container_name: 'one' }, { key })
    expect((await calls.find(id)).permissions).to.deep.equal([
      'container:read',
      'snapshot:read',
      'snapshot:create',
      'snapshot:delete',
      'snapshot:restore',
      'snapshot:schedule',
    ])
    const none = await gateway.makeKey({ scopes: ['subuser:create'] })
    expect(await refusalOf(create({ container_name: 'two' }, { key: none }))).to.deep.equal([
      403,
      'insufficient_scope',
      'permissions',
    ])
  })

  it('cannot be changed by a caller with fewer rights, and cannot get a new password from such a caller', async () => {
    const { id } = await calls.make({ container_name: 'one' })
    const key = await gateway.makeKey({ scopes: ['subuser:*', 'container:read'] })
    for (const [method, path, body] of [
      ['POST', '/rotate-password', {}],
      ['PATCH', '', { permissions: ['container:read'] }],
      ['DELETE', '', undefined],
    ] as const) {
      const answer = gateway.request(method, `/sub-users/${id}${path}`, { key, body })
      expect(await refusalOf(answer), method).to.deep.equal([403, 'insufficient_scope', undefined])
    }
    const enough = await gateway.makeKey({ scopes: all })
    const rotated = await gateway.request('POST', `/sub-users/${id}/rotate-password`, { key: enough })
    expect(rotated.status).to.equal(200)
  })

  it('are hidden from a key that is bound to none or only some of their containers', async () => {
    const mine = await calls.make({ container_name: 'one' })
    const others = [await calls.make({ container_name: 'two' }), await calls.make({ container_names: ['one', 'two'] })]
    const key = await gateway.makeKey({ scopes: all, container_uuids: [one!.uuid] })
    const list = await gateway.request('GET', '/sub-users', { key })
    expect((list.body.data as { id: string }[]).map(({ id }) => id)).to.deep.equal([mine.id])
    const headers = { 'x-request-id': 'the-same-for-all' }
    for (const [method, path, body] of [
      ['POST', '/rotate-password', {}],
      ['PATCH', '', { disabled: true }],
      ['DELETE', '', undefined],
      ['GET', '/audit-logs', undefined],
    ] as const) {
      const none = await gateway.request(method, `/sub-users/999999${path}`, { key, body, headers })
      expect(none.status).to.equal(404)
      for (const { id } of others) {
        const answer = await gateway.request(method, `/sub-users/${id}${path}`, { key, body, headers })
        expect(answer.text, `${method} ${path}`).to.equal(none.text)
      }
    }
    const none = await create({ container_name: 'nobody' }, { key, headers })
    for (const name of ['two', two!.uuid]) {
      expect((await create({ container_name: name }, { key, headers })).text).to.equal(none.text)
      for (const field of ['container_names', 'add_container_names', 'remove_container_names']) {
        const widened = { key, headers, body: { [field]: ['one', name] } }
        expect((await gateway.request('PATCH', `/sub-users/${mine.id}`, widened)).text, field).to.equal(none.text)
      }
    }
    expect(
      (await gateway.request('PATCH', `/sub-users/${mine.id}`, { key, body: { disabled: true } })).status,
    ).to.equal(200)
    const log = await gateway.request('GET', '/audit-logs?action=sub_user.update', { key })
    expect(log.body.data[0]).to.include({ target: mine.username, success: true })
  })
})
