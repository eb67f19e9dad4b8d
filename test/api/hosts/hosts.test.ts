import { expect } from 'chai'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayConfigSchema } from '../../../gateway/config.js'
import { createAdminKey } from '../../../gateway/access/bootstrap.js'
import { startGateway } from '../../../gateway/gateway.js'
import { validateConfig } from '../../../shared/config.js'
import { parseJoinToken } from '../../../shared/join-token.js'
import { ask, createClient } from '../../support/ask.js'
import { freePort } from '../../support/ports.js'
import { joinGateway } from '../../../agent/enrollment/join.js'
import type { Body } from '../../support/body.js'
import { silentLog } from '../../support/gateway/redis.js'
import { shell } from '../../support/host/setup-shell.js'
import { LabAgent } from '../../support/memory/lab-agent.js'
import { waitFor } from '../../support/wait.js'

/* Tests a complete gateway as berth-gateway starts it, and an agent that joins it over the API. */

describe('the host API', function () {
  let directory: string
  let close: () => Promise<void>
  let key: string
  let base: string
  let identityDir: string
  let joinPort: number
  let agent: LabAgent | undefined
  const client = createClient()

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-hosts-'))
    identityDir = join(directory, 'identity')
    const stateDir = join(directory, 'state')
    const http = await freePort()
    joinPort = await freePort()
    await createAdminKey(stateDir, join(directory, 'admin.key'))
    key = (await readFile(join(directory, 'admin.key'), 'utf8')).trim()
    const config = validateConfig(
      GatewayConfigSchema,
      {
        state_dir: stateDir,
        run_dir: join(directory, 'run'),
        listen: `127.0.0.1:${http}`,
        join_listen: `127.0.0.1:${joinPort}`,
      },
      'test',
    )
    base = `http://127.0.0.1:${http}/api/v1`
    close = await startGateway({ config, redisUrl: '', version: '0.0.0', log: silentLog })
    await waitFor(async () => (await call('GET', '/hosts')).status === 200)
  })
  after(async () => {
    client.close()
    await agent?.destroy()
    await close()
    await rm(directory, { recursive: true, force: true })
  })

  async function call(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
    withKey = key,
  ): Promise<{ status: number; body: Body }> {
    const { status, text } = await ask(client, base + path, {
      method,
      headers: { 'x-api-key': withKey, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status, body: JSON.parse(text) }
  }

  let hostId: string

  it('adds a host, which is online after it has joined with its token', async () => {
    const address = `127.0.0.1:${await freePort()}`
    const added = await call('POST', '/hosts', { name: 'one', address, comment: 'ignored' })
    expect(added.status).to.equal(201)
    const { host, join_token: token, command, expires_at: expires, ...join } = added.body.data
    expect(join).to.deep.equal({ join_address: `127.0.0.1:${joinPort}`, join_local_only: true })
    expect(host).to.include({ name: 'one', address, status: 'pending', draining: false, containers: 0 })
    const paths = shell(`set_instance ''; echo "$lib_dir/dist/agent/main.js join - --config $(config_of agent)"`)
    expect(command).to.equal(`echo ${token} | node ${paths.output.trim()}`)
    expect(expires).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(parseJoinToken(token).hostId).to.equal(host.id)
    hostId = host.id
    const status = async (): Promise<unknown> => (await call('GET', `/hosts/${hostId}`)).body.data.join_token_status
    expect([host.join_token_status, await status()]).to.deep.equal(['valid', 'valid'])
    await joinGateway(token, identityDir)
    expect(await status()).to.equal('none')
    agent = await LabAgent.start({ identityDir, listen: address })
    agent.seed(2)
    await waitFor(async () => (await call('GET', `/hosts/${hostId}`)).body.data.status === 'online')
    const { body } = await call('GET', '/hosts')
    expect(body.data).to.have.length(1)
    expect(body.data[0]).to.include({ id: hostId, containers: 2, lxc: true, hostname: hostname() })
    expect(body.data[0].certificate_expires_at).not.to.equal('')
  })

  it('refuses invalid fields, unknown hosts, and the name or the address of another host', async () => {
    for (const [body, field] of [
      [{ address: 'a:1' }, 'name'],
      [{ name: 'two', address: 'nowhere' }, 'address'],
      [{ name: 'two', address: 'unix:/run/x' }, 'address'],
      [{ name: '../x', address: 'a:1' }, 'name'],
      [{ name: 'x\ny', address: 'a:1' }, 'name'],
      [{ name: 7, address: 'a:1' }, 'name'],
    ] as const) {
      const answer = await call('POST', '/hosts', body)
      expect(answer.status, JSON.stringify(body)).to.equal(400)
      expect(answer.body.details.field).to.equal(field)
    }
    expect((await call('POST', '/hosts', { name: 'ONE', address: 'a:1' })).body.code).to.equal('name_conflict')
    const { address } = (await call('GET', `/hosts/${hostId}`)).body.data
    const twice = await call('POST', '/hosts', { name: 'two', address })
    expect([twice.status, twice.body.code]).to.deep.equal([409, 'address_in_use'])
    expect((await call('PATCH', `/hosts/${hostId}`, { address })).status).to.equal(200)
    const atOnce = await Promise.all(
      ['a', 'b', 'c'].map((name) => call('POST', '/hosts', { name, address: '198.18.0.9:7443' })),
    )
    expect(atOnce.map(({ status }) => status).sort(), 'at once').to.deep.equal([201, 409, 409])
    for (const { body } of atOnce) if (body.data?.host) await call('DELETE', `/hosts/${body.data.host.id}`, {})
    for (const [method, path] of [
      ['GET', '/hosts/h-none'],
      ['PATCH', '/hosts/h-none'],
      ['DELETE', '/hosts/h-none'],
      ['POST', '/hosts/h-none/join-token'],
    ] as const)
      expect((await call(method, path, method === 'GET' ? undefined : {})).status, `${method} ${path}`).to.equal(404)
  })

  it('changes the name and the draining state of a host, and does not change omitted fields', async () => {
    const renamed = await call('PATCH', `/hosts/${hostId}`, { name: 'uno' })
    expect(renamed.body.data).to.include({ name: 'uno', draining: false, status: 'online' })
    const draining = await call('PATCH', `/hosts/${hostId}`, { draining: true })
    expect(draining.body.data).to.include({ name: 'uno', draining: true })
    const refused = await call('POST', '/containers', {
      name: 'web',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 128,
      disk_gb: 1,
    })
    expect(refused.body.code).to.equal('invalid_state')
    await call('PATCH', `/hosts/${hostId}`, { draining: false })
  })

  it('stores group and labels of a host, and does not change them when other fields change', async () => {
    const set = await call('PATCH', `/hosts/${hostId}`, { group: 'eu', labels: ['ssd', 'disk=nvme', 'ssd'] })
    expect(set.body.data).to.deep.include({ group: 'eu', labels: ['disk=nvme', 'ssd'] })
    await call('PATCH', `/hosts/${hostId}`, { draining: false })
    const listed = (await call('GET', '/hosts')).body.data
    expect(listed).to.containSubset([{ id: hostId, group: 'eu', labels: ['disk=nvme', 'ssd'] }])
    for (const bad of [{ group: 'EU' }, { labels: ['a b'] }, { labels: ['a=1', 'a=2'] }, { labels: 7 }])
      expect((await call('PATCH', `/hosts/${hostId}`, bad)).status, JSON.stringify(bad)).to.equal(400)
    const removed = await call('PATCH', `/hosts/${hostId}`, { group: '', labels: [] })
    expect(removed.body.data).to.deep.include({ group: '', labels: [] })
  })

  it('stores the public address of a host, or shows a detected address if none is set', async () => {
    const guess = (await call('GET', `/hosts/${hostId}`)).body.data
    expect(guess.public_address_source).to.be.oneOf(['guess', 'none'])
    expect(guess.public_address, 'never loopback').not.to.match(/^127\./)
    const set = await call('PATCH', `/hosts/${hostId}`, { public_address: ' Node1.Example.com. ' })
    expect(set.body.data).to.include({ public_address: 'node1.example.com', public_address_source: 'set' })
    const guest = async (): Promise<Body> => {
      const [first] = (await call('GET', '/containers')).body.data
      expect((await call('GET', `/containers/${first.id}`)).body.data).to.deep.equal(first)
      return first
    }
    const { ssh_host: host, ssh_port: port, ssh_command: command } = await guest()
    expect(host).to.equal('node1.example.com')
    expect(command).to.equal(port > 0 ? `ssh -p ${port} root@node1.example.com` : '')
    const [entry] = (await call('GET', '/audit-logs')).body.data
    expect(entry.detail).to.equal(`id ${hostId}, public_address node1.example.com`)
    for (const bad of [
      '127.0.0.1',
      'localhost',
      '::1',
      '0.0.0.0',
      'fe80::1',
      'a b',
      'node1:22',
      'https://x',
      '$(id)',
    ]) {
      const refused = await call('PATCH', `/hosts/${hostId}`, { public_address: bad })
      expect([refused.status, refused.body.details?.field], bad).to.deep.equal([400, 'public_address'])
    }
    const again = await call('PATCH', `/hosts/${hostId}`, { public_address: '' })
    expect(again.body.data).to.include({ public_address: guess.public_address })
    expect((await guest()).ssh_host, 'shown at once').to.equal(guess.public_address)
  })

  it('accepts a public address for a new host', async () => {
    const body = { name: 'public', address: '198.18.0.77:7443', public_address: '203.0.113.7' }
    const { status, body: made } = await call('POST', '/hosts', body)
    expect(status).to.equal(201)
    expect(made.data.host).to.include({ public_address: '203.0.113.7', public_address_source: 'set' })
    const { id } = made.data.host
    const changed = await call('PATCH', `/hosts/${id}`, { public_address: '' })
    expect(changed.body.data, 'where its agent is reached').to.include({
      public_address: '198.18.0.77',
      public_address_source: 'guess',
    })
    await call('DELETE', `/hosts/${id}`, {})
  })

  it('lets a key without host:manage only read hosts, and lets a key bound to containers change nothing', async () => {
    const reader = (await call('POST', '/api-keys', { name: 'reader' })).body.data.key
    expect((await call('GET', '/hosts', undefined, reader)).status).to.equal(200)
    for (const [method, path] of [
      ['POST', '/hosts'],
      ['PATCH', `/hosts/${hostId}`],
      ['DELETE', `/hosts/${hostId}`],
      ['POST', `/hosts/${hostId}/join-token`],
    ] as const) {
      const answer = await call(method, path, { name: 'x', address: 'a:1' }, reader)
      expect(answer.body.code, `${method} ${path}`).to.equal('insufficient_scope')
    }
    const { uuid } = agent!.guests()[0]!
    const bound = await call('POST', '/api-keys', { name: 'bound', scopes: ['*'], container_uuids: [uuid] })
    const answer = await call('DELETE', `/hosts/${hostId}?force=true`, undefined, bound.body.data.key)
    expect(answer.body.code).to.equal('insufficient_scope')
  })

  it('counts only the containers of the key if the key is bound to containers', async () => {
    const { uuid } = agent!.guests()[0]!
    const bound = await call('POST', '/api-keys', {
      name: 'one',
      scopes: ['host:read'],
      container_uuids: [uuid],
    })
    const { key: one } = bound.body.data
    expect((await call('GET', '/hosts')).body.data[0].containers).to.be.greaterThan(1)
    expect((await call('GET', '/hosts', undefined, one)).body.data[0].containers).to.equal(1)
    expect((await call('GET', `/hosts/${hostId}`, undefined, one)).body.data.containers).to.equal(1)
  })

  it('writes only documented fields of a change to the audit log', async () => {
    const body = { draining: false, note: 'not documented', password: 'very secret' }
    expect((await call('PATCH', `/hosts/${hostId}`, body)).status).to.equal(200)
    const [entry] = (await call('GET', '/audit-logs')).body.data
    expect(entry).to.include({ action: 'host.update', detail: `id ${hostId}, draining false` })
  })

  it('writes no join token to the audit log', async () => {
    const made = await call('POST', `/hosts/${hostId}/join-token`, {})
    expect(made.status).to.equal(201)
    const log = JSON.stringify((await call('GET', '/audit-logs')).body)
    expect(log).to.contain('host.join_token').and.to.contain('host.create')
    expect(log).not.to.contain('berth_jt_')
  })

  it('removes a host with containers only if the request forces it', async () => {
    expect((await call('DELETE', `/hosts/${hostId}`)).body).to.include({ code: 'invalid_state' })
    expect((await call('DELETE', `/hosts/${hostId}?force=true`)).status).to.equal(200)
    expect((await call('GET', '/hosts')).body.data).to.deep.equal([])
    expect((await call('GET', '/containers')).body.data).to.deep.equal([])
  })
})
