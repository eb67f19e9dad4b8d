import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { apiCall } from '../../support/gateway/api-call.js'
import { endLeftGateway } from '../../support/gateway/gateway-process.js'
import { freePort } from '../../support/ports.js'
import { nodeArguments } from '../../support/programs.js'
import { waitFor } from '../../support/wait.js'

/** Tests the installed program with a private Redis and without hosts. */
describe('berth-gateway', function () {
  let directory: string
  let port: number
  const children: ChildProcess[] = []

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-gateway-'))
    port = await freePort()
    const config = {
      state_dir: `${directory}/state`,
      run_dir: `${directory}/run`,
      listen: `127.0.0.1:${port}`,
    }
    await writeConfig('gateway.yaml', { ...config, join_listen: `127.0.0.1:${await freePort()}` })
  })
  after(async () => {
    for (const child of children) if (child.exitCode === null) child.kill('SIGKILL')
    await rm(directory, { recursive: true, force: true })
  })

  const writeConfig = (name: string, config: object) => writeFile(join(directory, name), JSON.stringify(config))

  function run(...args: string[]): {
    child: ChildProcess
    output: () => string
    ended: Promise<number | null>
  } {
    const child = spawn(process.execPath, nodeArguments('gateway/main.ts', ...args), {
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(child)
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const ended = once(child, 'close').then(([code]) => code as number | null)
    return { child, output: () => output, ended }
  }

  it('refuses a configuration with an unknown key, and reports this key', async () => {
    await writeConfig('wrong.yaml', { listenn: '127.0.0.1:1' })
    const { ended, output } = run('check-config', '--config', join(directory, 'wrong.yaml'))
    expect([await ended, output()]).to.deep.equal([2, output()])
    expect(output()).to.include('listenn')
  })

  it('prints its configuration, including defaults', async () => {
    const { ended, output } = run('check-config', '--config', join(directory, 'gateway.yaml'))
    expect(await ended, output()).to.equal(0)
    expect(JSON.parse(output())).to.have.nested.property('http.max_body_bytes', 1048576)
  })

  it('creates its secrets only once, and only their owner can read them', async () => {
    const keyFile = join(directory, 'admin.key')
    const init = async () => run('init', '--config', join(directory, 'gateway.yaml'), '--admin-key-file', keyFile).ended
    expect(await init()).to.equal(0)
    const key = await readFile(keyFile, 'utf8')
    expect(key).to.match(/^berth_sk_\w+\n$/)
    for (const path of ['admin.key', 'state/secret', 'state/pki/authority.pem'])
      expect((await stat(join(directory, path))).mode & 0o777, path).to.equal(0o600)
    expect(await init()).to.equal(0)
    expect(await readFile(keyFile, 'utf8')).to.equal(key)
  })

  const settingCall = (key: string, [method, path]: ['GET' | 'PUT', string], body?: object) =>
    apiCall(`http://127.0.0.1:${port}`, [method, `/api/v1${path}`], {
      headers: { connection: 'close', 'x-api-key': key },
      ...(body && { body: JSON.stringify(body) }),
    })

  /** Locks out the caller with an access policy, and disables the policy with the command on the host. */
  async function expectPolicyDisabled(key: string): Promise<void> {
    const call = (method: 'GET' | 'PUT', body?: object) => settingCall(key, [method, '/access-policy'], body)
    expect((await call('PUT', { enabled: true, allowed_sources: ['192.0.2.1'] })).status).to.equal(200)
    const { ended, output } = run('disable-access-policy', '--config', join(directory, 'gateway.yaml'))
    expect([await ended, output()]).to.deep.equal([0, 'the access policy is off\n'])
    await waitFor(async () => (await call('GET')).body.data.enabled === false)
  }

  /** Runs a command on the host. @returns its exit code and its output */
  async function command(...args: string[]): Promise<[number | null, string]> {
    const { ended, output } = run(...args, '--config', join(directory, 'gateway.yaml'))
    return [await ended, output()]
  }

  /** Runs the commands for administrators on the host while the gateway runs. */
  async function expectAdminCommands(key: string): Promise<void> {
    const linkFile = join(directory, 'panel-setup.url')
    const passwordFile = join(directory, 'password')
    const post = (path: string, body: object) =>
      apiCall(`http://127.0.0.1:${port}`, ['POST', `/api/v1${path}`], {
        headers: { connection: 'close', 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const [code, first] = await command('admin', 'first-link', '--url-file', linkFile)
    expect([code, first]).to.deep.equal([0, await readFile(linkFile, 'utf8')])
    expect((await stat(linkFile)).mode & 0o777).to.equal(0o600)
    expect(await command('admin', 'first-link', '--url-file', linkFile), 'again').to.deep.equal([0, first])
    const token = /^http:\/\/127\.0\.0\.1:\d+\/setup#(\S+)\n$/.exec(first)?.[1]
    const url = 'https://panel.example.com:8443'
    expect((await settingCall(key, ['PUT', '/public-url'], { public_url: url })).status).to.equal(200)
    const [, moved] = await command('admin', 'first-link', '--url-file', linkFile)
    expect([moved, await readFile(linkFile, 'utf8')]).to.deep.equal(Array(2).fill(`${url}/setup#${token}\n`))
    await writeFile(passwordFile, 'correct horse battery\n')
    expect(await command('admin', 'add', 'ada', '--password-file', passwordFile)).to.deep.equal([
      0,
      'administrator ada created\n',
    ])
    const login = { username: 'ada', password: 'correct horse battery' }
    expect((await post('/login', login)).status).to.equal(200)
    expect((await post('/setup', { ...login, username: 'eve', token })).status, 'too late').to.equal(404)
    expect(await command('admin', 'first-link', '--url-file', linkFile)).to.deep.equal([0, ''])
    await expectGone(linkFile)
    const [, recovery] = await command('admin', 'link', 'ada')
    expect((await post('/login', login)).status, 'the old password').to.equal(401)
    expect(recovery).to.match(/^https:\/\/panel\.example\.com:8443\/setup#\S+\n$/)
    const again = { token: recovery.trim().split('#')[1], password: 'staple paper clip 7' }
    expect((await post('/setup', again)).status).to.equal(201)
    expect((await post('/setup', again)).status, 'twice').to.equal(404)
    expect(await command('admin', 'link', 'nobody')).to.deep.equal([
      1,
      'berth-gateway: administrator nobody not found\n',
    ])
  }

  it('serves requests, exits with 0 on SIGTERM, and accepts the same key after a restart', async () => {
    const key = (await readFile(join(directory, 'admin.key'), 'utf8')).trim()
    for (let round = 0; round < 2; round++) {
      const { child, output, ended } = run('serve', '--config', join(directory, 'gateway.yaml'))
      const get = (path: string, headers = {}) =>
        apiCall(`http://127.0.0.1:${port}`, ['GET', path], { headers: { connection: 'close', ...headers } })
      await waitFor(async () => (await get('/readyz').catch(() => undefined))?.status === 200, {
        what: 'ready',
      })
      const answers = () => get('/api/v1/api-keys', { 'x-api-key': key })
      await waitFor(async () => (await answers()).status === 200, { what: 'the admin key works' })
      expect((await answers()).body).to.have.nested.property('data[0].name', 'admin')
      await expectPolicyDisabled(key)
      if (round === 0) await expectAdminCommands(key)
      child.kill('SIGTERM')
      expect(await ended, output()).to.equal(0)
      expect(output()).not.to.include(key)
      await expectGone(join(directory, 'run/redis.sock'))
    }
  })

  it('reports at /readyz that it stops, and still serves requests on new connections', async () => {
    const home = join(directory, 'drain')
    await mkdir(home)
    const places = { state_dir: `${home}/state`, run_dir: `${home}/run` }
    const listens = { listen: `127.0.0.1:${port}`, join_listen: `127.0.0.1:${await freePort()}` }
    await writeConfig('drain/gateway.yaml', { ...places, ...listens, http: { drain_seconds: 60 } })
    const { child, output } = run('serve', '--config', join(home, 'gateway.yaml'))
    const headers = { connection: 'close' }
    const get = (path: string) => apiCall(`http://127.0.0.1:${port}`, ['GET', path], { headers })
    const readiness = async () => (await get('/readyz').catch(() => undefined))?.text
    try {
      await waitFor(async () => (await readiness()) === 'ok\n', { what: output })
      child.kill('SIGTERM')
      await waitFor(async () => (await readiness()) === 'shutting down\n', { what: output })
      for (let n = 0; n < 20; n++) expect((await get('/healthz')).status).to.equal(200)
      expect((await get('/api/v1/api-keys')).status, 'the API answers').to.equal(401)
    } finally {
      await endLeftGateway(home)
    }
  })
})

async function expectGone(path: string): Promise<void> {
  const found = await stat(path).then(
    () => path,
    () => '',
  )
  expect(found).to.equal('')
}
