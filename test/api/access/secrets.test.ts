import { execFileSync } from 'node:child_process'
import { createPrivateKey, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect } from 'chai'
import { generateSync } from 'otplib'
import { pino } from 'pino'
import { joinGateway } from '../../../agent/enrollment/join.js'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { Store } from '../../../gateway/store/store.js'
import { TlsDocuments } from '../../../gateway/tls/tls-settings.js'
import { readOrCreateKey } from '../../../shared/sealing.js'
import type { Body } from '../../support/body.js'
import { Browser } from '../../support/gateway/browser.js'
import { ConsoleClient } from '../../support/gateway/console-client.js'
import { endLeftGateway, GatewayProcess } from '../../support/gateway/gateway-process.js'
import { LabAgent } from '../../support/memory/lab-agent.js'
import { pageRequest } from '../../support/gateway/page-requests.js'
import { freePort } from '../../support/ports.js'
import { silentLog } from '../../support/gateway/redis.js'
import { scratchDirectory } from '../../support/scratch.js'
import { formsOf, ProcessTexts, readDump, readFiles, readStore } from '../../support/host/secret-places.js'
import type { Reply, RequestOptions } from '../../support/gateway/test-gateway.js'
import { TestAuthority } from '../../support/gateway/tls-material.js'
import { waitFor } from '../../support/wait.js'
import { WebhookReceiver } from '../../support/gateway/webhook-receiver.js'

const target = 'panel.example'
const program = resolve(import.meta.dirname, '../../../dist/gateway/main.js')

/*
 * Real processes use a secret of every kind, in valid and in rejected requests. Then the test searches every place that
 * could contain one, except files that must contain secrets (the gateway's secret, its CA, the administrator's key).
 */
describe('the search for secrets in logs and stored data', function () {
  let gateway: GatewayProcess
  let agent: LabAgent
  let store: Store
  let receiver: WebhookReceiver
  let processes: ProcessTexts
  let directory: string
  let wipe: () => void
  const agentLines: string[] = []
  const secrets = new Map<string, string>()
  /** Answers to all rejected requests. */
  const refusals: string[] = []

  before(async () => {
    await endLeftGateway('/var/tmp/btest-secrets/gateway')
    const scratch = scratchDirectory('btest-secrets')
    ;[directory, wipe] = [scratch.path, scratch.wipe]
    processes = new ProcessTexts()
    receiver = await WebhookReceiver.start()
    gateway = await GatewayProcess.create(join(directory, 'gateway'), '127.0.0.1', {
      log_level: 'trace',
      http: { trusted_proxies: ['127.0.0.1'] },
      tls_listen: `127.0.0.1:${await freePort()}`,
      http_listen: '',
      webhooks: { allow_http: true, allowed_targets: ['127.0.0.0/8'] },
    })
    gateway.start()
    await gateway.ready()
    await startAgent()
    const [stateDir, runDir] = [join(gateway.directory, 'state'), join(gateway.directory, 'run')]
    const { url } = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
    store = new Store({ url, prefix: 'berth:', log: silentLog })
    store.start()
    await waitFor(() => store.ready())
  })
  after(async () => {
    processes?.end()
    await store?.close()
    await gateway?.close()
    await agent?.destroy()
    await receiver?.down().catch(() => undefined)
    wipe?.()
  })

  const keep = (name: string, value: unknown): void => void secrets.set(`${name} ${secrets.size}`, String(value))
  /** Generates a secret in the form that its use requires, and remembers it for the search. */
  const makeUp = (name: string, bytes = 12): string => {
    const value = randomBytes(bytes).toString('hex')
    keep(name, value)
    return value
  }

  async function request(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    const reply = await pageRequest(gateway.url, [method, path], { key: gateway.adminKey, ...options })
    if (reply.status >= 400) refusals.push(`${method} ${reply.status} ${reply.text}`)
    return reply
  }
  const browser = (): Browser =>
    new Browser({ url: gateway.url, request: (method, path, options) => request(method, path, options) })

  async function done(status: number, ...[method, path, options]: Parameters<typeof request>): Promise<Body> {
    const reply = await request(method, path, options)
    expect(reply.status, `${method} ${path}: ${reply.text}`).to.equal(status)
    return reply.body.data
  }
  const refused = async (...asked: Parameters<typeof request>): Promise<void> => {
    const { status, text } = await request(...asked)
    expect(status, `${asked[0]} ${asked[1]}: ${text}`).to.be.within(400, 499)
  }

  async function startAgent(): Promise<void> {
    const host = { name: 'host-a', address: '127.0.0.1:1' }
    const { data } = (await gateway.request('POST', '/hosts', { body: host })).body
    keep('join token', data.join_token)
    const identityDir = join(directory, 'agent')
    await joinGateway(String(data.join_token), identityDir)
    const log = pino({ level: 'trace' }, { write: (line: string) => void agentLines.push(line) })
    agent = await LabAgent.start({ identityDir, stateDir: join(directory, 'agent-state'), log })
    agent.addGuest({ id: 7, name: 'used' })
    await gateway.request('PATCH', `/hosts/${data.host.id}`, { body: { address: agent.address } })
    await waitFor(async () => (await gateway.request('GET', '/containers')).text.includes('used'))
  }

  it('covers requests of administrators', async () => {
    const [first, next] = [makeUp('password'), makeUp('new password')]
    const urlFile = join(directory, 'setup.url')
    const config = ['--config', join(gateway.directory, 'gateway.yaml')]
    const output = execFileSync(process.execPath, [program, 'admin', 'first-link', '--url-file', urlFile, ...config])
    const token = /#(\S+)/.exec(output.toString() + readFiles(directory))![1]!
    keep('setup link', token)
    const ada = browser()
    expect(
      (await ada.request('POST', '/setup', { body: { token, username: 'ada', password: first } })).status,
    ).to.equal(201)
    const keepSession = async (person: Browser): Promise<void> => {
      keep('session', person.token)
      keep('csrf', await person.readCsrf())
      keep('device', person.cookies.get('berth-device'))
    }
    await keepSession(ada)
    await ada.request('POST', '/account/password', { body: { current_password: first, password: next } })
    await keepSession(ada)
    const { secret } = (await ada.request('POST', '/account/totp')).body.data
    keep('TOTP secret', secret)
    const code = generateSync({ secret: String(secret), epoch: Math.floor(Date.now() / 1000) - 30 })
    const confirmed = await ada.request('POST', '/account/totp/confirm', { body: { code } })
    const codes = confirmed.body.data.recovery_codes as string[]
    await keepSession(ada)
    const renewed = (await ada.request('POST', '/account/totp/recovery-codes')).body.data.recovery_codes as string[]
    for (const recovery of [...codes, ...renewed]) keep('recovery code', recovery)
    const half = browser()
    await half.login('ada', next)
    keep('incomplete login', half.token)
    await half.request('POST', '/login/otp', { body: { recovery_code: codes[0] } })
    expect((await half.request('POST', '/login/otp', { body: { recovery_code: renewed[0] } })).status).to.equal(200)
    const invited = await ada.request('POST', '/admins', { body: { username: 'carol' } })
    keep('invitation', invited.body.data.setup_token)
    writeFileSync(join(directory, 'password'), makeUp('password by a command'))
    const added = ['admin', 'add', 'dora', '--password-file', join(directory, 'password')]
    execFileSync(process.execPath, [program, ...added, ...config])
    const link = execFileSync(process.execPath, [program, 'admin', 'link', 'dora', ...config]).toString()
    keep('recovery link', /#(\S+)/.exec(link)![1])
    writeFileSync(join(directory, 'password'), '')
    writeFileSync(urlFile, '')
    const wrong = browser()
    await wrong.login('ada', makeUp('wrong password'))
    await wrong.login(`${makeUp('password typed as a name')} !`, 'x'.repeat(12))
  })

  it('covers requests about API keys and sub-users', async () => {
    const once = (use: string) => ({ 'idempotency-key': use })
    const headers = once('a-key')
    const key = await done(201, 'POST', '/api-keys', { body: { name: 'billing', scopes: ['*'] }, headers })
    keep('API key', key.key)
    await done(201, 'POST', '/api-keys', { body: { name: 'billing', scopes: ['*'] }, headers })
    const made = await done(200, 'POST', '/sub-user/create', {
      body: { container_name: 'used' },
      headers: once('a-sub-user'),
    })
    const rotated = await done(200, 'POST', `/sub-users/${made.id}/rotate-password`, {
      body: { rotate_code: true },
      headers: once('another-password'),
    })
    for (const { password, access_code: code } of [made, rotated]) {
      keep('sub-user password', password)
      keep('access code', code)
    }
    const { access_code: code, password } = rotated as { access_code: string; password: string }
    const customer = browser()
    expect((await customer.request('POST', '/sub-user/access', { body: { code, password } })).status).to.equal(200)
    keep('sub-user session', customer.token)
    await customer.request('POST', '/sub-user/access', { body: { code, password: makeUp('wrong password') } })
    await fetch(`${gateway.url}/u/${code}`, { redirect: 'manual' })
    await fetch(`${gateway.url}/login?code=${code}`, { redirect: 'manual' })
  })

  it('covers requests about consoles and guests', async () => {
    for (const way of ['protocol', 'query', 'refused']) {
      const { ticket } = await done(200, 'POST', '/ssh-ticket', { body: { container_name: 'used' } })
      keep('console ticket', ticket)
      const client = ConsoleClient.open(`${gateway.url}/api/v1/ssh`, {
        protocols: way === 'protocol' ? ['berth.console.v1', `berth-ticket.${ticket}`] : ['berth.console.v1'],
        query: {
          container: way === 'refused' ? 'other' : 'used',
          ...(way === 'protocol' ? {} : { ticket: String(ticket) }),
        },
        ...(way === 'refused' && { origin: 'http://evil.example' }),
      })
      if (way === 'refused') await client.refusal()
      else await client.ready()
      client.socket.terminate()
    }
    const create = { name: 'made', template_id: 'debian-12', vcpu: 1, ram_mb: 256, disk_gb: 5 }
    const login = { ssh_auth_mode: 'password', ssh_password: makeUp('guest password') }
    const { task_id: task } = await done(202, 'POST', '/containers', {
      body: { ...create, ...login },
      headers: { 'idempotency-key': 'guest' },
    })
    await waitFor(async () => (await request('GET', `/tasks/${task}`)).body.data.status !== 'running')
    const reset = await request('POST', '/containers/used/reset-password', {
      headers: { 'idempotency-key': 'r' },
    })
    expect(reset.status, reset.text).to.equal(200)
    keep('guest password', reset.body.data.password)
  })

  it('covers requests about TLS, backup targets and webhooks', async () => {
    const authority = await TestAuthority.create()
    const { certPem, keyPem } = await authority.issue(target)
    const other = await authority.issue('other.example')
    const upload = { mode: 'uploaded', target, cert_pem: `${certPem}${authority.rootPem}`, key_pem: keyPem }
    await done(200, 'PUT', '/ssl', { body: upload })
    await refused('PUT', '/ssl', { body: { ...upload, key_pem: other.keyPem } })
    await refused('PUT', '/ssl', { body: { ...upload, cert_pem: keyPem } })
    for (const pem of [keyPem, other.keyPem]) keepKey('uploaded key', pem)
    await done(200, 'PUT', '/ssl', { body: { mode: 'self_signed', target } })
    const documents = new TlsDocuments(
      store,
      await readOrCreateKey(join(gateway.directory, 'state', 'secret')),
      silentLog,
    )
    await documents.settings.refresh()
    keepKey('self-signed key', documents.opened(documents.settings.value!.current!).keyPem)
    const s3 = {
      name: 'cloud',
      type: 's3',
      endpoint: 'https://s3.example.com',
      bucket: 'berth-backups',
      access_key_id: 'AKIDEXAMPLE',
      secret_access_key: makeUp('S3 key', 20),
      encryption_password: makeUp('password of backups'),
    }
    const sftpKey = createPrivateKey(other.keyPem).export({ type: 'sec1', format: 'pem' }).toString()
    const sftp = {
      name: 'vault',
      type: 'sftp',
      host: 'vault.example.com',
      user: 'berth',
      path: 'kept',
      private_key: sftpKey,
      host_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM',
      encryption_password: s3.encryption_password,
    }
    await done(201, 'POST', '/backup-targets', { body: s3 })
    await done(201, 'POST', '/backup-targets', { body: sftp })
    keep('SFTP key', sftpKey)
    await refused('POST', '/backup-targets', { body: { ...s3, name: 'other', endpoint: 'nonsense' } })
    await refused('POST', '/backup-targets', { body: { ...s3, name: 'cloud' } })
    const hook = await done(201, 'POST', '/webhooks', { body: { name: 'hook', url: receiver.url } })
    keep('webhook secret', hook.secret)
    agent.update(agent.guests().find(({ name }) => name === 'used')!.uuid, { status: 'error' })
    await waitFor(() => receiver.messages.length > 0, { what: 'a message' })
    const { secret } = await done(200, 'PATCH', `/webhooks/${hook.id}`, { body: { rotate_secret: true } })
    keep('webhook secret', secret)
  })

  /** Remembers a private key for the search: its text, and its private value `d` in two forms. */
  function keepKey(name: string, pem: string): void {
    const { d = '' } = createPrivateKey(pem).export({ format: 'jwk' })
    keep(name, pem)
    keep(name, d)
    keep(name, Buffer.from(d, 'base64url').toString('latin1'))
  }

  it('covers refused requests', async () => {
    const wrong = () => makeUp('a secret in a rejected request')
    await refused('GET', '/containers', { key: `berth_sk_${wrong()}` })
    await refused('GET', '/containers', { key: '', headers: { authorization: `Bearer ${wrong()}` } })
    await refused('GET', '/session', {
      key: '',
      headers: { cookie: `berth=${randomBytes(32).toString('base64url')}` },
    })
    await refused('POST', '/login', { key: '', body: { username: 'ada', password: { text: wrong() } } })
    await refused('POST', '/login', { key: '', body: `{"username":"ada","password":"${wrong()}"` })
    await refused('POST', '/admins', { body: { username: 'x', password: { is: wrong() } } })
    await refused('POST', '/admins', { body: { username: 'eve', password: wrong().slice(0, 11) } })
    await refused('POST', '/setup', { key: '', body: { token: wrong(), username: 'eve', password: wrong() } })
    await refused('POST', '/containers', {
      body: { name: 'x', ssh_auth_mode: 'password', ssh_password: `${wrong()} !` },
    })
    await refused('POST', '/sub-user/access', { key: '', body: { code: wrong(), password: wrong() } })
    await refused('POST', '/login/otp', { key: '', body: { recovery_code: wrong() } })
    await refused('GET', `/ssh?container=used&ticket=${wrong()}`, { key: '' })
    await refused('PUT', '/ssl', { body: { mode: 'uploaded', target, cert_pem: wrong(), key_pem: wrong() } })
    await refused('POST', '/backup-targets', { body: { name: 'x', type: 'sftp', private_key: wrong() } })
  })

  it('finds no secret of the requests in this file, or of their answers', async () => {
    const redis = join(gateway.directory, 'state', 'redis')
    const bySearch = {
      'log of the gateway': readFiles(gateway.directory, ['secret', '.key', '.yaml', '.aof', '.rdb']),
      'log of the agent': agentLines.join(''),
      'audit log': (await request('GET', '/audit-logs/export')).text,
      'log of log-ins': (await request('GET', '/login-logs/export')).text,
      tasks: (await request('GET', '/tasks')).text,
      alerts: (await request('GET', '/security/alerts')).text,
      deliveries: receiver.messages.map(({ text, headers }) => text + JSON.stringify(headers)).join('\n'),
      metrics: await (await fetch(`${gateway.url}/metrics`)).text(),
      errors: refusals.join('\n'),
      'values in Redis': await readStore(store),
      'file of Redis': readFiles(redis),
      'dump of Redis': await readDump(redis, join(directory, 'copy')),
      'journal of the agent': readFiles(join(directory, 'agent-state'), ['.key', 'key.pem', 'secret']),
      'list of processes': processes.end(),
    }
    for (const [place, sign] of [
      ['log of the gateway', '/sub-user/access'],
      ['log of the agent', 'the agent is ready'],
      ['audit log', 'account.recovery_codes'],
      ['log of log-ins', 'ada'],
      ['metrics', 'berth_guests'],
      ['errors', 'login_failed'],
      ['values in Redis', 'tls:settings'],
      ['file of Redis', 'tls:settings'],
      ['dump of Redis', 'tls:settings'],
      ['journal of the agent', 'used'],
      ['list of processes', gateway.directory],
    ] as const)
      expect(bySearch[place].includes(sign), `${place} is the right one`).to.equal(true)
    keep('administrator’s key', gateway.adminKey)
    expect(secrets.size).to.be.greaterThan(60)
    for (const [name, value] of secrets) {
      expect(value.length, name).to.be.greaterThan(10)
      for (const form of formsOf(value))
        for (const [place, text] of Object.entries(bySearch))
          expect(text.includes(form), `${name}, as ${form.slice(0, 6)}…, in the ${place}`).to.equal(false)
    }
  })
})
