import { expect } from 'chai'
import { conflict } from '../../../shared/errors.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import type { Body } from '../../support/body.js'
import { waitFor } from '../../support/wait.js'
import type { MemoryHost } from '../../support/memory/memory-host.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'

const template = { template_id: 'debian-12', ram_mb: 64, vcpu: 0.1, disk_gb: 1 }
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUkSXm9C1Cx4Vf0VbMT4KjEVxmeDbtC5VxY3l5a3tmk someone@somewhere'

describe('password resets and reinstallations over HTTP', () => {
  let gateway: TestGateway
  let agent: LabAgent
  let host: MemoryHost
  let count = 0
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    agent = gateway.fleet.agentOf('host-a')
    host = agent.host
  })
  after(() => gateway.close())
  afterEach(() => {
    for (const name of Object.keys(host.faults)) delete host.faults[name as keyof typeof host.faults]
  })

  interface Made {
    readonly name: string
    readonly uuid: string
    readonly ssh_password: string
  }
  const post = (name: string, action: string, body?: object, options: object = {}): Promise<Reply> =>
    gateway.request('POST', `/containers/${name}/${action}`, { ...(body ? { body } : {}), ...options })
  const ended = (task: string): Promise<string> =>
    waitFor(
      async () => {
        const { body } = await gateway.request('GET', `/tasks/${task}`)
        return body.data.finished_at === '' ? undefined : (body.data.status as string)
      },
      { what: 'task to end' },
    )
  async function make(fields: object = {}): Promise<Made> {
    const body = { ...template, name: `life-${++count}`, ...fields }
    const { body: made } = await gateway.request('POST', '/containers', { body })
    expect(await ended(made.data.task_id)).to.equal('done')
    return made.data as Made
  }
  const detail = async (name: string): Promise<Body> => (await gateway.request('GET', `/containers/${name}`)).body.data
  const loginOf = (uuid: string) => host.driver.logins.get(`/nowhere/${uuid}.next`)

  describe('a password reset', () => {
    for (const start of [true, false])
      it(`sets the requested or a generated password for a guest that ${start ? 'runs' : 'is stopped'}`, async () => {
        const { name, uuid, ssh_password: first } = await make({ start })
        const { status, body } = await post(name, 'reset-password')
        expect([status, body.success]).to.deep.equal([200, true])
        expect(body.data.password)
          .to.match(/^[A-Za-z0-9]{16}$/)
          .and.not.equal(first)
        expect(host.driver.passwords.get(uuid)).to.equal(body.data.password)
        const given = await post(name, 'reset-password', { password: 'S3cret/pass' })
        expect(given.body.data).to.deep.equal({ password: 'S3cret/pass' })
        expect(host.driver.passwords.get(uuid)).to.equal('S3cret/pass')
        expect((await detail(name)).status).to.equal(start ? 'running' : 'stopped')
      })

    it('returns the same password if the request is repeated', async () => {
      const { name } = await make()
      const headers = { 'idempotency-key': 'reset-1' }
      const first = await post(name, 'reset-password', {}, { headers })
      const again = await post(name, 'reset-password', {}, { headers })
      expect(again.body.data).to.deep.equal(first.body.data)
    })

    it('keeps the SSH key of a guest', async () => {
      const { name, uuid } = await make({ ssh_auth_mode: 'key', ssh_public_key: publicKey })
      const { body } = await post(name, 'reset-password')
      const record = agent.guests().find((guest) => guest.uuid === uuid)!
      expect(record.hasPassword).to.equal(true)
      expect(agent.domain.context.logins.open(record)).to.deep.equal({ publicKey, password: body.data.password })
    })

    it('fails with the reason that the guest reports, and leaves the stored login unchanged', async () => {
      const { name, uuid, ssh_password: first } = await make()
      host.faults.setPassword = () => {
        throw conflict('guest_refused', 'the password could not be set in the guest: full')
      }
      const { status, body } = await post(name, 'reset-password')
      expect([status, body.code]).to.deep.equal([409, 'guest_refused'])
      expect(body.message).to.contain('full')
      const record = agent.guests().find((guest) => guest.uuid === uuid)!
      expect(agent.domain.context.logins.open(record)).to.deep.equal({ password: first })
    })

    it('returns no details if the host fails', async () => {
      const { name } = await make()
      host.faults.setPassword = () => {
        throw new Error('/var/lib/secret')
      }
      const { status, body, text } = await post(name, 'reset-password')
      expect([status, body.code]).to.deep.equal([502, 'agent_error'])
      expect(text).not.to.contain('secret')
    })

    it('refuses an invalid password, a key without the scope, and a key bound to another container', async () => {
      const { name, uuid } = await make()
      const { status, body } = await post(name, 'reset-password', { password: 'short1' })
      expect([status, body.code, body.details.field]).to.deep.equal([400, 'invalid_field', 'password'])
      const power = await gateway.makeKey({ scopes: ['container:power'] })
      expect((await post(name, 'reset-password', {}, { key: power })).body.code).to.equal('insufficient_scope')
      const bound = await gateway.makeKey({ scopes: ['container:password'], container_uuids: [uuid] })
      expect((await post(name, 'reset-password', {}, { key: bound })).status).to.equal(200)
      const other = await make()
      expect((await post(other.name, 'reset-password', {}, { key: bound })).status).to.equal(404)
    })

    it('is possible for a suspended guest', async () => {
      const { name } = await make()
      const body = { expires_at: '2020-01-01' }
      await gateway.request('PUT', `/containers/${name}/expiry`, { body })
      await waitFor(async () => (await detail(name)).policy_blocked === true, { what: 'blocked' })
      expect((await post(name, 'reset-password')).status).to.equal(200)
    })
  })

  describe('a reinstallation', () => {
    before(() => host.images.add('debian-13'))
    const reinstall = { template_id: 'debian-12', ssh_auth_mode: 'auto_password' }

    for (const status of ['running', 'stopped'])
      it(`gives a ${status} guest a new disk and a new login, and changes nothing else`, async () => {
        const { name, uuid, ssh_password: first } = await make({ start: status === 'running' })
        await gateway.request('PUT', `/containers/${name}/firewall`, {
          body: { enabled: true, default_action: 'DROP', rules: [] },
        })
        const { status_reason: _, updated_at: __, ...before } = await detail(name)
        const { status: answered, body } = await post(name, 'reinstall', reinstall)
        expect(answered).to.equal(202)
        expect(body.data).to.include({ container_name: name, action: 'reinstall', status: 'pending' })
        expect(body.data.ssh_password)
          .to.match(/^[A-Za-z0-9]{16}$/)
          .and.not.equal(first)
        expect(await ended(body.data.task_id)).to.equal('done')
        await waitFor(async () => (await detail(name)).status === status, { what: status })
        expect(await detail(name)).to.deep.include(before)
        expect(loginOf(uuid)).to.deep.equal({ password: body.data.ssh_password })
        expect(host.snapshots.get(uuid)?.size ?? 0).to.equal(0)
      })

    it('accepts every login mode, and `keep` uses the present login even after a password reset', async () => {
      const { name, uuid } = await make()
      const ways = [
        [{ ssh_auth_mode: 'password', ssh_password: 'S3cret/pass' }, 'S3cret/pass', { password: 'S3cret/pass' }],
        [{ ssh_auth_mode: 'keep' }, '', { password: 'S3cret/pass' }],
        [{ ssh_auth_mode: 'key', ssh_public_key: publicKey }, '', { publicKey }],
        [{ ssh_auth_mode: 'keep' }, '', { publicKey }],
        [{ ssh_password: 'Implied-1' }, 'Implied-1', { password: 'Implied-1' }],
      ] as const
      for (const [fields, shown, login] of ways) {
        const { body } = await post(name, 'reinstall', { template_id: 'debian-12', ...fields })
        expect(body.data.ssh_password).to.equal(shown)
        expect(await ended(body.data.task_id)).to.equal('done')
        expect(loginOf(uuid)).to.deep.equal(login)
      }
      const { password } = (await post(name, 'reset-password')).body.data
      const { body } = await post(name, 'reinstall', { template_id: 'debian-12', ssh_auth_mode: 'keep' })
      expect(await ended(body.data.task_id)).to.equal('done')
      expect(loginOf(uuid)).to.deep.equal({ password })
    })

    it('keeps a login that was changed inside the guest if the mode is `keep`', async () => {
      const { name, uuid } = await make()
      const current = {
        passwordHash: '$y$j9T$salt$hash',
        authorizedKeys: [publicKey, `restrict ${publicKey}`],
      }
      host.driver.currentLogins.set(uuid, current)
      const { body } = await post(name, 'reinstall', { template_id: 'debian-12', ssh_auth_mode: 'keep' })
      expect(await ended(body.data.task_id)).to.equal('done')
      expect(loginOf(uuid)).to.deep.equal(current)
    })

    it('writes no plain-text password to the journal, and starts no second task if it is repeated', async () => {
      const { name } = await make()
      const headers = { 'idempotency-key': 're-1' }
      const body = { ...reinstall, ssh_auth_mode: 'password', ssh_password: 'Journ4l-word' }
      const first = await post(name, 'reinstall', body, { headers })
      expect((await post(name, 'reinstall', body, { headers })).body.data.task_id).to.equal(first.body.data.task_id)
      await ended(first.body.data.task_id)
      const { input } = agent.domain.engine.store.findJournaled(first.body.data.task_id)!
      expect(JSON.stringify(input)).not.to.contain('Journ4l-word')
    })

    it('restores the disk and the login of a running guest if a step fails', async () => {
      for (const fault of ['initialize', 'prepare', 'snapshot', 'exchange'] as const) {
        const { name, uuid, ssh_password: first } = await make()
        host.faults[fault] = () => {
          delete host.faults[fault]
          throw new Error('broken')
        }
        const { body } = await post(name, 'reinstall', reinstall)
        expect(await ended(body.data.task_id), fault).to.equal('failed')
        delete host.faults[fault]
        await waitFor(async () => (await detail(name)).status === 'running', { what: 'running' })
        expect(host.snapshots.get(uuid)?.size ?? 0, fault).to.equal(0)
        const record = agent.guests().find((guest) => guest.uuid === uuid)!
        expect(agent.domain.context.logins.open(record)).to.deep.equal({ password: first })
      }
    })

    it('restores the old disk if the guest does not start from the new disk', async () => {
      const { name, uuid } = await make({ template_id: 'debian-12' })
      host.contents.set(uuid, 'old content')
      let starts = 0
      host.faults.start = (id) => {
        if (id === uuid && ++starts === 1) throw new Error('no init')
      }
      const { body } = await post(name, 'reinstall', reinstall)
      expect(await ended(body.data.task_id)).to.equal('failed')
      await waitFor(async () => (await detail(name)).status === 'running', { what: 'running' })
      expect(host.contents.get(uuid)).to.equal('old content')
      expect(host.driver.running.has(uuid)).to.equal(true)
    })

    it('is possible for a suspended guest, which stays stopped', async () => {
      const { name, uuid } = await make()
      await gateway.request('PUT', `/containers/${name}/expiry`, { body: { expires_at: '2020-01-01' } })
      await waitFor(async () => (await detail(name)).status === 'stopped', { what: 'stopped' })
      const { body } = await post(name, 'reinstall', reinstall)
      expect(await ended(body.data.task_id)).to.equal('done')
      expect(host.driver.running.has(uuid)).to.equal(false)
    })

    it('is refused without a new task if fields are invalid', async () => {
      const { name, uuid } = await make()
      for (const [fields, code, field] of [
        [{}, 'missing_field', 'template_id'],
        [{ template_id: 'nothing' }, 'invalid_field', 'template_id'],
        [{ template_id: '../etc' }, 'invalid_field', 'template_id'],
        [{ ...reinstall, ssh_auth_mode: 'other' }, 'invalid_field', 'ssh_auth_mode'],
        [{ ...reinstall, ssh_auth_mode: 'password' }, 'missing_field', 'ssh_password'],
        [{ ...reinstall, ssh_auth_mode: 'password', ssh_password: 'short' }, 'invalid_field', 'ssh_password'],
        [{ ...reinstall, ssh_auth_mode: 'key' }, 'missing_field', 'ssh_public_key'],
        [{ ...reinstall, ssh_auth_mode: 'key', ssh_public_key: 'x' }, 'invalid_field', 'ssh_public_key'],
      ] as const) {
        const { status, body } = await post(name, 'reinstall', fields)
        expect([status, body.code, body.details.field]).to.deep.equal([400, code, field])
      }
      const delet = await gateway.makeKey({ scopes: ['container:delete'], container_uuids: [uuid] })
      expect((await post(name, 'reinstall', reinstall, { key: delet })).body.code).to.equal('insufficient_scope')
      expect((await post('nobody', 'reinstall', reinstall)).status).to.equal(404)
      expect((await post(name, 'reinstall', reinstall, { headers: { 'if-match': '"1.x"' } })).status).to.equal(412)
    })

    it('checks several guests of one request together, and gives them different logins', async () => {
      const guests = [await make(), await make()]
      const containers = guests.map(({ name }) => name)
      const batch = (body: object, key?: string): Promise<Reply> =>
        gateway.request('POST', '/batch-action', { body, ...(key ? { key } : {}) })
      const wrong = await batch({ action: 'reinstall', containers })
      expect([wrong.body.code, wrong.body.details.field]).to.deep.equal(['missing_field', 'template_id'])
      const none = await batch({ ...reinstall, action: 'reinstall', containers, template_id: 'nothing' })
      expect(none.body.code).to.equal('invalid_field')
      const key = await gateway.makeKey({ scopes: ['container:power'] })
      expect((await batch({ ...reinstall, action: 'reinstall', containers }, key)).body.code).to.equal(
        'insufficient_scope',
      )
      const { status, body } = await batch({ ...reinstall, action: 'reinstall', containers })
      expect([status, body.data.length]).to.deep.equal([202, 2])
      for (const task of body.data as string[]) expect(await ended(task)).to.equal('done')
      const rows = body.containers as { container_name: string; ssh_password: string }[]
      expect(rows.map(({ container_name }) => container_name)).to.deep.equal(containers)
      for (const [index, { uuid }] of guests.entries())
        expect(loginOf(uuid)).to.deep.equal({ password: rows[index]!.ssh_password })
    })
  })
})
