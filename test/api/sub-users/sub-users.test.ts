import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { defaultPermissions } from '../../../gateway/access/sub-user-bounds.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type RequestOptions, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('a sub-user', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let [one, two]: Guest[] = []

  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    calls = new SubUserCalls(gateway)
    await gateway.fleet.work('host-b')
  })
  after(() => gateway.close())
  beforeEach(async () => {
    one = await gateway.fleet.addGuest({ name: 'one' })
    two = await gateway.fleet.addGuest({ name: 'two' })
  })
  afterEach(() => calls.clear())

  const create = (body: object, options: RequestOptions = {}) =>
    gateway.request('POST', '/sub-user/create', { ...options, body })
  const refusalOf = async (work: ReturnType<typeof create>): Promise<unknown> => {
    const { status, body } = await work
    return [status, body.code, body.details?.field] as unknown
  }
  const hashOf = async (id: string): Promise<string> =>
    (await gateway.access.accounts.accounts.find(Number(id)))!.passwordHash
  const opens = async (id: string, password: string): Promise<boolean> =>
    gateway.access.accounts.passwords.matches(await hashOf(id), password, { account: id, source: '' })

  it('gets a name, a password (shown once), and an access code of 128 random bits', async () => {
    const { body } = await create({ container_name: 'one' })
    const { id, username, password, access_code: code } = body.data
    expect(body.data).to.have.all.keys(
      'id',
      'username',
      'password',
      'access_code',
      'container_names',
      'created_at',
      'created',
      'link',
    )
    expect(body.data.created).to.equal(true)
    expect(id).to.be.a('string')
    expect(username).to.match(/^user-[a-z0-9]{10}$/)
    expect(password).to.match(/^[A-Za-z0-9]{20}$/)
    expect(code).to.match(/^[A-Za-z0-9_-]{22}$/)
    expect(await opens(id, password)).to.equal(true)
    const list = await gateway.request('GET', '/sub-users')
    expect(list.text).not.to.include(password)
    expect(list.body.data).to.deep.equal([
      {
        id,
        username,
        container_name: 'one',
        container_uuid: one!.uuid,
        container_names: ['one'],
        container_uuids: [one!.uuid],
        access_code: code,
        link: body.data.link,
        permissions: [...defaultPermissions],
        allowed_image_ids: [],
        image_limit_configured: false,
        current_image_ids: [one!.templateId],
        port_mapping_limit: 10,
        created_by: 'key:1',
        created_at: body.data.created_at,
        last_login: '',
        last_login_ip: '',
        last_login_ua: '',
        expires_at: '',
        disabled: false,
      },
    ])
  })

  it('has no plain-text password or access code in the store or in the audit log', async () => {
    const made = await calls.make({ container_name: 'one' }, { headers: { 'idempotency-key': 'k' } })
    const rotated = await gateway.request('POST', `/sub-users/${made.id}/rotate-password`, {
      body: { rotate_code: true },
      headers: { 'idempotency-key': 'r' },
    })
    await gateway.request('GET', '/sub-users')
    const audit = await gateway.request('GET', '/audit-logs')
    const stored = await gateway.redis.readAof()
    for (const secret of [made.password, made.access_code, rotated.body.data.password, rotated.body.data.access_code])
      for (const text of [stored, audit.text]) expect(text).not.to.include(secret)
    expect(stored).to.include(made.username)
  })

  it('is returned without a password if its creation is repeated for the same containers', async () => {
    const first = await calls.make({ container_names: ['one', 'two'] })
    for (const body of [
      { container_names: ['two', 'one', String(one!.id)] },
      { container_names: [two!.id, one!.id] },
      { container_names: [two!.uuid, one!.uuid], username: first.username.toUpperCase() },
      { container_names: ['one', 'two'], disabled: false, permissions: [...defaultPermissions].reverse() },
    ]) {
      const again = await calls.make(body)
      expect(again, JSON.stringify(body)).to.deep.equal({ ...first, password: '', created: false })
    }
    expect(await opens(first.id, first.password)).to.equal(true)
    expect((await calls.make({ container_name: 'one' })).id).not.to.equal(first.id)
  })

  it('is refused if its containers have a sub-user with other settings, or its name is in use', async () => {
    const { username } = await calls.make({ container_name: 'one' })
    expect(await refusalOf(create({ container_name: 'one', permissions: ['container:read'] }))).to.deep.equal([
      409,
      'invalid_state',
      undefined,
    ])
    expect(await refusalOf(create({ container_name: 'two', username }))).to.deep.equal([
      409,
      'name_conflict',
      undefined,
    ])
    expect((await calls.make({ container_name: 'one', username: 'other' })).username).to.equal('other')
  })

  it('has a name with a suffix if the creator is bound to containers, so that other names stay hidden', async () => {
    await calls.make({ container_name: 'one', username: 'taken' })
    const key = await gateway.makeKey({ scopes: ['subuser:*', 'container:read'], container_uuids: [two!.uuid] })
    for (const username of ['taken', 'free', 'x'.repeat(64)]) {
      const made = await calls.make({ container_name: 'two', username }, { key })
      expect(made.username).to.match(new RegExp(`^${username.slice(0, 57)}-[a-z0-9]{6}$`))
      const again = await calls.make({ container_name: 'two', username }, { key })
      expect(again, username).to.deep.equal({ ...made, password: '', created: false })
    }
  })

  it('is created only once by several concurrent requests', async () => {
    const made = await Promise.all(Array.from({ length: 8 }, () => calls.make({ container_name: 'one' })))
    expect(new Set(made.map(({ id }) => id)).size).to.equal(1)
    expect(made.filter(({ password }) => password !== '')).to.have.length(1)
  })

  it('can be created with the empty fields of older clients, and errors name the invalid field', async () => {
    const lenient = {
      container_name: ' one ',
      container_names: [],
      username: '',
      expires_at: '',
      disabled: '0',
    }
    expect((await calls.make(lenient)).container_names).to.deep.equal(['one'])
    for (const [body, refusal] of [
      [{}, [400, 'missing_field', 'container_name']],
      [{ container_name: '' }, [400, 'missing_field', 'container_name']],
      [{ container_name: 'nobody' }, [404, 'not_found', undefined]],
      [{ container_name: 'one', username: 'a:b' }, [400, 'invalid_field', 'username']],
      [{ container_name: 'one', permissions: ['container:delete'] }, [400, 'invalid_field', 'permissions.0']],
      [{ container_name: 'one', permissions: ['*'] }, [400, 'invalid_field', 'permissions.0']],
      [{ container_name: 'one', permissions: null }, [400, 'invalid_field', 'permissions']],
      [{ container_name: 'one', port_mapping_limit: -1 }, [400, 'invalid_field', 'port_mapping_limit']],
      [{ container_name: 'one', expires_at: 'soon' }, [400, 'invalid_field', 'expires_at']],
      [
        { container_name: 'one', image_limit_configured: false, allowed_image_ids: ['debian-12'] },
        [400, 'invalid_field', 'allowed_image_ids'],
      ],
    ] as const)
      expect(await refusalOf(create(body)), JSON.stringify(body)).to.deep.equal(refusal)
  })

  it('keeps the settings that a change omits', async () => {
    const { id } = await calls.make({ container_name: 'one' })
    const before = await calls.find(id)
    for (const [body, change] of [
      [{}, {}],
      [{ permissions: null, container_names: [''], expires_at: null, disabled: '' }, {}],
      [{ disabled: true }, { disabled: true }],
      [
        { disabled: false, port_mapping_limit: '3' },
        { disabled: false, port_mapping_limit: 3 },
      ],
      [{ permissions: ['container:read'] }, { permissions: ['container:read'] }],
      [{ allowed_image_ids: ['debian-12'] }, { allowed_image_ids: ['debian-12'], image_limit_configured: true }],
      [{ allowed_image_ids: [] }, { allowed_image_ids: [], image_limit_configured: true }],
      [{ image_limit_configured: false }, { image_limit_configured: false }],
      [{ expires_at: '2030-01-02 03:04:05' }, { expires_at: '2030-01-02 03:04:05' }],
      [{ expires_at: '' }, { expires_at: '' }],
      [
        { container_names: ['two', 'one'] },
        {
          container_names: ['two', 'one'],
          container_uuids: [two!.uuid, one!.uuid],
          container_name: 'two',
          container_uuid: two!.uuid,
        },
      ],
    ] as const) {
      const row = await calls.change(id, body)
      Object.assign(before, change)
      expect(row, JSON.stringify(body)).to.deep.equal(before)
      expect(await calls.find(id)).to.deep.equal(before)
    }
    expect((await calls.change(id, { passwort: 'x', disabled: true })).ignored).to.deep.equal(['passwort'])
  })

  it('loses its sessions when its password is rotated, and gets a new access code on request', async () => {
    const made = await calls.make({ container_name: 'one' })
    const caller = await calls.loggedIn(made)
    expect((await caller('GET', '/containers')).status).to.equal(200)
    const rotate = async (body?: object) => {
      const { body: answer } = await gateway.request('POST', `/sub-users/${made.id}/rotate-password`, {
        body,
      })
      return answer.data as Record<'username' | 'password' | 'access_code', string>
    }
    const rotated = await rotate()
    expect(rotated).to.have.all.keys('username', 'password', 'access_code', 'link')
    expect([rotated.username, rotated.access_code]).to.deep.equal([made.username, made.access_code])
    expect((await caller('GET', '/containers')).status).to.equal(401)
    expect([await opens(made.id, made.password), await opens(made.id, rotated.password)]).to.deep.equal([false, true])
    const { subUsers } = gateway.access
    const { access_code: code } = await rotate({ rotate_code: true })
    expect(code).not.to.equal(made.access_code)
    expect(await subUsers.findByCode(made.access_code)).to.equal(undefined)
    expect((await subUsers.findByCode(code))?.username).to.equal(made.username)
  })

  it('loses its sessions and its access code when it is deleted, and its name is free again', async () => {
    const made = await calls.make({ container_name: 'one', username: 'alice' })
    const caller = await calls.loggedIn(made)
    expect((await gateway.request('DELETE', `/sub-users/${made.id}`)).status).to.equal(200)
    expect((await caller('GET', '/containers')).status).to.equal(401)
    expect(await gateway.access.subUsers.findByCode(made.access_code)).to.equal(undefined)
    for (const [method, path] of [
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/rotate-password'],
      ['GET', '/audit-logs'],
    ] as const) {
      const options = method === 'GET' ? {} : { body: {} }
      const { status, body } = await gateway.request(method, `/sub-users/${made.id}${path}`, options)
      expect([status, body.code], method).to.deep.equal([404, 'not_found'])
    }
    expect((await calls.make({ container_name: 'one', username: 'alice' })).id).not.to.equal(made.id)
  })

  it('loses a container that is deleted, and keeps its other containers', async () => {
    const gone = await gateway.fleet.addGuest({ name: 'gone' }, 'host-b')
    const made = await calls.make({ container_names: ['gone', 'two'] })
    await gateway.request('DELETE', `/containers/${gone.uuid}/delete`)
    await waitFor(() => gateway.fleet.view.findGuest(gone.uuid) === undefined, { what: 'it is gone' })
    expect((await calls.find(made.id)).container_names).to.deep.equal(['two'])
    const stored = async () => {
      const account = await gateway.access.accounts.accounts.find(Number(made.id))
      return account?.kind === 'sub_user' ? account.containerUuids : []
    }
    await waitFor(async () => (await stored()).length === 1, { what: 'the record does not contain it any more' })
    expect(await stored()).to.deep.equal([two!.uuid])
    expect((await calls.make({ container_name: 'two' })).id).to.equal(made.id)
  })

  it('has audit entries for changes that others make to the sub-user, and a log of its own actions', async () => {
    const made = await calls.make({ container_name: 'one' })
    await calls.change(made.id, { disabled: true, permissions: ['container:read'] })
    await calls.change(made.id, { disabled: false, permissions: ['container:read', 'container:power'] })
    const { body } = await gateway.request('GET', `/audit-logs?target=${made.username}`)
    expect((body.data as { action: string }[]).map(({ action }) => action)).to.deep.equal([
      'sub_user.update',
      'sub_user.update',
      'sub_user.create',
    ])
    expect(body.data[1].detail).to.match(/^id \d+, disabled, permissions: disabled, 1 containers, any image/)
    const caller = await calls.loggedIn(made)
    await caller('POST', '/containers/one/stop')
    const own = await gateway.request('GET', `/sub-users/${made.id}/audit-logs`)
    expect(own.body.data).to.have.length(1)
    expect(own.body.data[0]).to.include({ action: 'container.stop', user: made.username, target: 'one' })
  })
})
