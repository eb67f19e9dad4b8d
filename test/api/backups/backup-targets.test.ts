import { expect } from 'chai'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { conflict } from '../../../shared/errors.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'

const privateKey = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n'
const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFuYYb6WDYH4hbfmGCwWrnYbxYW8rM4N8hQdPYcWnLvM'
const password = 'a-password-of-the-vault'

const local = { name: 'disk', type: 'local', path: '/srv/backups', encryption_password: password }
const sftp = {
  name: 'vault',
  type: 'sftp',
  host: 'vault.example.com',
  user: 'berth',
  path: 'kept/here',
  private_key: privateKey,
  host_key: hostKey,
  encryption_password: password,
}
const s3 = {
  name: 'cloud',
  type: 's3',
  endpoint: 'https://s3.example.com',
  bucket: 'berth-backups',
  prefix: 'a/b',
  access_key_id: 'AKIDEXAMPLE',
  secret_access_key: 'secret+of/the=cloud',
  encryption_password: password,
}

describe('backup targets in the HTTP API', function () {
  let gateway: TestGateway
  let agent: LabAgent

  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    for (const host of ['host-a', 'host-b']) await gateway.fleet.work(host)
    agent = gateway.fleet.agentOf('host-a')
  })
  after(() => gateway.close())
  afterEach(async () => {
    for (const { id } of await list()) await gateway.request('DELETE', `/backup-targets/${String(id)}?force=true`)
    delete agent.host.backupFaults.probe
  })

  const list = async (): Promise<Record<string, unknown>[]> =>
    (await gateway.request('GET', '/backup-targets')).body.data as never
  const add = (body: unknown, headers = {}): Promise<Reply> =>
    gateway.request('POST', '/backup-targets', { body, headers })
  const added = async (body: unknown): Promise<string> => {
    const { status, body: answer, text } = await add(body)
    expect(status, text).to.equal(201)
    return answer.data.id as string
  }

  it('of each type can be added, and are shown without secrets', async () => {
    const secrets = [password, 'b3BlbnNzaC1rZXktdjE', s3.secret_access_key]
    const texts = await Promise.all([local, sftp, s3].map(async (body) => (await add(body)).text))
    texts.push((await gateway.request('GET', '/backup-targets')).text)
    texts.push((await gateway.request('GET', '/audit-logs')).text)
    const kept = await gateway.store.client.hVals(gateway.store.key('backup-targets'))
    for (const text of [...texts, ...kept]) for (const secret of secrets) expect(text).not.to.include(secret)
    const rows = await list()
    expect(rows.map(({ name, type }) => `${String(name)} ${String(type)}`)).to.deep.equal([
      'cloud s3',
      'disk local',
      'vault sftp',
    ])
    expect(rows[0]).to.deep.include({
      endpoint: s3.endpoint,
      bucket: s3.bucket,
      prefix: 'a/b',
      access_key_id: s3.access_key_id,
      region: '',
      path: '',
      port: 0,
      verify_percent: 100,
      backups: 0,
    })
    expect(rows[2]).to.deep.include({
      host: sftp.host,
      port: 22,
      user: 'berth',
      path: 'kept/here',
      host_key: hostKey,
    })
    expect(rows[1]).to.have.all.keys(rows[0]!)
  })

  it('are sent to agents with all secrets decrypted', async () => {
    const id = await added(sftp)
    let sent: unknown
    const twist = gateway.fleet.twist
    gateway.fleet.twist = (client) => ({
      ...client,
      operations: {
        ...client.operations,
        submitOperation: (request) => {
          sent = request.order
          return client.operations.submitOperation(request)
        },
      },
    })
    await gateway.request('POST', `/backup-targets/${id}/check`)
    gateway.fleet.twist = twist
    expect(sent).to.deep.equal({
      $case: 'backupTargetCheck',
      value: {
        target: {
          id,
          name: 'vault',
          password,
          verifyPercent: 100,
          place: {
            $case: 'sftp',
            value: { host: sftp.host, port: 22, user: 'berth', path: 'kept/here', privateKey, hostKey },
          },
        },
      },
    })
  })

  const refusals: [string, object, string, string][] = [
    ['an empty name', { ...local, name: '' }, 'missing_field', 'name'],
    ['a name that contains a slash', { ...local, name: 'a/b' }, 'invalid_field', 'name'],
    ['an unknown type', { ...local, type: 'ftp' }, 'invalid_field', 'type'],
    ['a missing path', { ...local, path: undefined }, 'missing_field', 'path'],
    ['a relative path', { ...local, path: 'srv' }, 'invalid_field', 'path'],
    ['a path that contains ..', { ...local, path: '/srv/../etc' }, 'invalid_field', 'path'],
    ['a path that contains a quote', { ...local, path: "/srv/'x" }, 'invalid_field', 'path'],
    [
      'an encryption password that is too short',
      { ...local, encryption_password: 'short' },
      'invalid_field',
      'encryption_password',
    ],
    [
      'an encryption password of two lines',
      { ...local, encryption_password: 'long enough\nX=1' },
      'invalid_field',
      'encryption_password',
    ],
    [
      'a missing encryption password',
      { ...local, encryption_password: undefined },
      'missing_field',
      'encryption_password',
    ],
    ['101 percent as the share to verify', { ...local, verify_percent: 101 }, 'invalid_field', 'verify_percent'],
    [
      'a host name that starts with a hyphen, as an option does',
      { ...sftp, host: '-oProxyCommand=x' },
      'invalid_field',
      'host',
    ],
    ['a host name that contains a blank', { ...sftp, host: 'a b' }, 'invalid_field', 'host'],
    ['a user name that starts with a hyphen, as an option does', { ...sftp, user: '-l' }, 'invalid_field', 'user'],
    ['port 0', { ...sftp, port: 0 }, 'invalid_field', 'port'],
    ['a missing host key', { ...sftp, host_key: undefined }, 'missing_field', 'host_key'],
    [
      'a host key that is not in the format of OpenSSH',
      { ...sftp, host_key: 'ssh-ed25519 nonsense!' },
      'invalid_field',
      'host_key',
    ],
    ['an invalid private key', { ...sftp, private_key: 'word' }, 'invalid_field', 'private_key'],
    ['an endpoint URL that has a path', { ...s3, endpoint: 'https://s3.example.com/x' }, 'invalid_field', 'endpoint'],
    ['an endpoint that is a file: URL', { ...s3, endpoint: 'file:///etc' }, 'invalid_field', 'endpoint'],
    [
      'an endpoint URL that contains a user name and a password',
      { ...s3, endpoint: 'https://a:b@s3.example.com' },
      'invalid_field',
      'endpoint',
    ],
    ['a bucket name that contains a capital letter', { ...s3, bucket: 'Bucket' }, 'invalid_field', 'bucket'],
    ['a prefix that contains ..', { ...s3, prefix: '../x' }, 'invalid_field', 'prefix'],
    [
      'a secret access key of two lines',
      { ...s3, secret_access_key: 'a\nHOME=/x' },
      'invalid_field',
      'secret_access_key',
    ],
    ['a missing access key id', { ...s3, access_key_id: undefined }, 'missing_field', 'access_key_id'],
  ]
  for (const [what, body, code, field] of refusals)
    it(`are refused with ${what}`, async () => {
      const { status, body: answer } = await add(body)
      expect([status, answer.code, answer.details?.field]).to.deep.equal([400, code, field])
      expect(await list()).to.deep.equal([])
    })

  it('have unique names, whatever their case', async () => {
    await added(local)
    expect((await add({ ...sftp, name: 'DISK' })).body.code).to.equal('name_conflict')
  })

  it('are added only once if the request is repeated with the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'target-1' }
    const first = await add(local, headers)
    expect((await add(local, headers)).body.data.id).to.equal(first.body.data.id)
    expect((await list()).length).to.equal(1)
  })

  it('keep the fields, including secrets, that a change omits', async () => {
    const id = await added(s3)
    const change = (body: unknown): Promise<Reply> => gateway.request('PATCH', `/backup-targets/${id}`, { body })
    const { status, body } = await change({
      name: 'other',
      prefix: 'c',
      verify_percent: 5,
      secret_access_key: '',
    })
    expect(status).to.equal(200)
    expect(body.data).to.deep.include({ name: 'other', prefix: 'c', verify_percent: 5, bucket: s3.bucket })
    expect((await change({ encryption_password: 'another-password' })).body.details?.field).to.equal(
      'encryption_password',
    )
    expect((await change({ type: 'local', path: '/x' })).body.details?.field).to.equal('type')
    expect((await change({ bucket: 'No' })).status).to.equal(400)
    expect((await gateway.request('PATCH', '/backup-targets/none', { body: { name: 'x' } })).status).to.equal(404)
  })

  it('are checked by a host, and the answer contains the error of this host', async () => {
    const id = await added(local)
    const check = async (body?: object): Promise<unknown> =>
      (await gateway.request('POST', `/backup-targets/${id}/check`, body ? { body } : {})).body.data
    expect(await check()).to.deep.include({ ok: true, code: '', host_id: 'host-a' })
    expect(await check({ host_id: 'host-b' })).to.deep.include({ ok: true, host_id: 'host-b' })
    agent.host.backupFaults.probe = () => {
      throw conflict('backup_target_refused', 'the target refuses')
    }
    expect(await check()).to.deep.include({
      ok: false,
      code: 'backup_target_refused',
      message: 'the target refuses',
    })
    agent.host.backupFaults.probe = () => {
      throw new Error('of the host')
    }
    expect(await check()).to.deep.include({ ok: false, code: 'agent_error' })
    const unknown = await gateway.request('POST', `/backup-targets/${id}/check`, {
      body: { host_id: 'none' },
    })
    expect(unknown.body.details?.field).to.equal('host_id')
  })

  it('require the scope for backup targets, and refuse keys bound to containers', async () => {
    const guest = await gateway.fleet.addGuest()
    const reader = await gateway.makeKey({ scopes: ['backuptarget:read', 'backup:*'], name: 'reader' })
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid], name: 'bound' })
    const id = await added(local)
    expect((await gateway.request('GET', '/backup-targets', { key: reader })).status).to.equal(200)
    for (const key of [reader, bound])
      for (const [method, path] of [
        ['POST', '/backup-targets'],
        ['PATCH', `/backup-targets/${id}`],
        ['DELETE', `/backup-targets/${id}`],
        ['POST', `/backup-targets/${id}/check`],
      ] as const)
        expect((await gateway.request(method, path, { key, body: local })).body.code).to.equal('insufficient_scope')
    expect((await gateway.request('GET', '/backup-targets', { key: bound })).status).to.equal(403)
  })
})
