import { connect } from 'node:net'
import { Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { createLogger } from '../../../shared/logging.js'
import { waitFor } from '../../support/wait.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { expectInTime, quickest } from '../../support/promised-time.js'

const timeouts = { headersMs: 400, requestMs: 800, keepAliveMs: 5000, checkEveryMs: 100 }

describe('the HTTP server when something fails', function () {
  let gateway: TestGateway
  let logged = ''
  before(async () => {
    const destination = new Writable({
      write(chunk: Buffer, _encoding, done) {
        logged += chunk.toString()
        done()
      },
    })
    const log = createLogger({ name: 'test', level: 'trace', destination })
    gateway = await startTestGateway({ timeouts, log })
  })
  after(() => gateway.close())

  it('writes an audit entry with caller, action, target and outcome for every change', async () => {
    await gateway.request('POST', '/containers', { body: { name: 'audited', template_id: 'debian-12' } })
    await gateway.request('POST', '/containers/audited/stop')
    await gateway.request('POST', '/containers/absent/stop')
    await gateway.request('POST', '/containers', { body: { name: 'audited', template_id: 'debian-12' } })
    const { data } = (await gateway.request('GET', '/audit-logs')).body as { data: Record<string, unknown>[] }
    const seen = data.map(({ action, target, success, user }) => [action, target, success, user])
    expect(seen).to.deep.equal([
      ['container.create', 'audited', false, 'api:admin'],
      ['container.stop', 'absent', false, 'api:admin'],
      ['container.stop', 'audited', true, 'api:admin'],
      ['container.create', 'audited', true, 'api:admin'],
    ])
    expect(data[0]?.['detail']).to.match(/^name_conflict/)
  })

  it('answers 408 to clients whose headers or body arrive too slowly, and closes their connections', async () => {
    for (const begun of [
      'GET /api/v1/dashboard HTTP/1.1\r\nHost: x\r\n',
      `POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name":',
    ]) {
      const started = performance.now()
      expect(await sendSlowly(gateway, begun)).to.match(/^HTTP\/1.1 408 /)
      expectInTime(started, 3000, 'the answer')
    }
  })

  it('answers other clients while 200 clients are slow', async () => {
    const slow = Array.from({ length: 200 }, () => sendSlowly(gateway, 'GET / HTTP/1.1\r\nHost: x\r\n'))
    const others = async (): Promise<void> =>
      void expect((await gateway.request('GET', '/containers')).status).to.equal(200)
    expect(await quickest(3, others), 'ms').to.be.lessThan(1000)
    await Promise.all(slow)
  })

  it('answers 504 with the task if the host goes offline while a request waits for this host', async () => {
    const { fleet } = gateway
    const guests = [await fleet.addGuest(), await fleet.addGuest({ status: 'stopped', wanted: 'stopped' })]
    const [running, stopped] = guests.map(({ id }) => `/containers/${id}`)
    const paths = [`${running}/reset-password`, `${stopped}/snapshots`, '/swap']
    const body = { action: 'create', size_mb: 64 }
    // The agent of this test stores the operations in its journal, but does not run them.
    const replies = paths.map((path) => gateway.request('POST', path, path === '/swap' ? { body } : {}))
    const actions = ['reset-password', 'snapshot-create', 'swap']
    const isShown = (action: string): boolean => fleet.operations().some(({ operation }) => operation.action === action)
    await waitFor(() => actions.every(isShown), {
      what: () =>
        `all tasks: ${fleet
          .operations()
          .map(({ operation }) => operation.action)
          .join()}`,
    })
    await fleet.setHostState('host-a', 'offline')
    for (const { status, body: answer } of await Promise.all(replies)) {
      expect([status, answer.code]).to.deep.equal([504, 'agent_timeout'])
      const { task_id: task } = answer['details']
      expect(fleet.view.findOperation(task)).to.not.equal(undefined)
      expect(answer.message).to.equal(`the host went offline: task ${task} continues when the host is online again`)
    }
    await fleet.setHostState('host-a', 'online')
  })

  it('answers 503 with Retry-After to all requests while the store is down, and recovers', async () => {
    const pid = await gateway.redis.pid()
    process.kill(pid, 'SIGSTOP')
    try {
      await waitFor(async () => (await gateway.request('GET', '/dashboard')).status === 503, {
        what: 'the loss is detected',
      })
      for (const [method, path] of [
        ['GET', '/containers'],
        ['POST', '/containers/audited/start'],
      ] as const) {
        const { status, body, headers } = await gateway.request(method, path)
        expect([status, body.code]).to.deep.equal([503, 'store_unavailable'])
        expect(headers['retry-after']).to.match(/^\d+$/)
      }
      const wrong = await gateway.request('GET', '/containers', { key: 'berth_sk_' + 'a'.repeat(43) })
      expect([401, 503]).to.include(wrong.status)
      const ready = await gateway.request('GET', '/readyz', { key: '' })
      expect(ready.status).to.equal(503)
      expect(ready.text).to.match(/^store: ./)
      expect((await gateway.request('GET', '/healthz', { key: '' })).status).to.equal(200)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await waitFor(async () => (await gateway.request('GET', '/dashboard')).status === 200, {
      what: 'it is back',
    })
    expect((await gateway.request('GET', '/readyz', { key: '' })).status).to.equal(200)
  })

  it('answers 503 to readiness checks until the gateway has read the list of hosts', async () => {
    gateway.fleet.isComplete = false
    const ready = await gateway.request('GET', '/readyz', { key: '' })
    gateway.fleet.isComplete = true
    expect([ready.status, ready.text]).to.deep.equal([503, 'fleet: the list of hosts was not read yet\n'])
  })

  it('writes internal failures to the log with the request id, but not to the answer', async () => {
    gateway.fleet.agentFailure = new Error('secret path /var/lib/x')
    const { status, text, headers } = await gateway.request('POST', '/containers/audited/start')
    gateway.fleet.agentFailure = undefined
    expect(status).to.equal(500)
    expect(text).not.to.include('/var/lib')
    const line = logged
      .split('\n')
      .find((entry) => entry.includes(headers['x-request-id'] ?? '?') && entry.includes('/var/lib/x'))
    expect(line).to.be.a('string')
  })

  it('writes neither keys nor passwords to the log', async () => {
    const body = {
      name: 'with-pw',
      template_id: 'debian-12',
      ssh_auth_mode: 'password',
      ssh_password: 'Topsecret4711',
    }
    await gateway.request('POST', '/containers', { body })
    await gateway.request('POST', '/containers', { body: { ...body, ssh_password: 'Topsecret4711 blank' } })
    const key = await gateway.makeKey({ scopes: ['*'] })
    await gateway.request('GET', `/containers?ticket=${key}`, {
      key: '',
      headers: { authorization: `Bearer ${key}x` },
    })
    await gateway.request('POST', '/containers', { body: '{"ssh_password":Topsecret4711}' })
    expect(logged).to.include('"path":"/api/v1/containers"').and.include('invalid_json')
    for (const secret of ['Topsecret4711', key, gateway.adminKey]) expect(logged).not.to.include(secret)
  })

  it('keeps working if clients disconnect during their requests', async () => {
    for (const text of [
      `GET /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\n\r\n`,
      `POST /api/v1/containers HTTP/1.1\r\nHost: x\r\nX-API-Key: ${gateway.adminKey}\r\nContent-Length: 50\r\n\r\n{`,
    ])
      for (let i = 0; i < 20; i++) {
        const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => {
          socket.write(text)
          setImmediate(() => socket.resetAndDestroy())
        })
        socket.on('error', () => undefined)
      }
    await delay(50)
    expect((await gateway.request('GET', '/dashboard')).status).to.equal(200)
  })
})

describe('the HTTP server when it shuts down', () => {
  it('refuses new connections, and waits for running requests', async () => {
    const gateway = await startTestGateway()
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => (release = resolve))
    gateway.fleet.reached = () => held
    await gateway.fleet.addGuest({ name: 'in-flight' })
    const answer = gateway.request('POST', '/containers/in-flight/start')
    await waitFor(() => gateway.fleet.operations().length > 0, { what: 'the request in progress' })
    const closed = gateway.closeServer(10_000)
    const refused = await connects(gateway)
    release()
    expect((await answer).status).to.equal(202)
    await closed
    expect(refused).to.equal(false)
    await gateway.close()
  })

  it('aborts requests that run longer than the time limit', async () => {
    const gateway = await startTestGateway()
    gateway.fleet.reached = () => new Promise(() => undefined)
    await gateway.fleet.addGuest({ name: 'for-ever' })
    const answer = gateway.request('POST', '/containers/for-ever/start').catch(() => 'cut off')
    await waitFor(() => gateway.fleet.operations().length > 0, { what: 'the request in progress' })
    const started = performance.now()
    await gateway.closeServer(200)
    expectInTime(started, 5000, 'it is cut off')
    expect(await answer).to.equal('cut off')
    await gateway.close()
  })
})

function connects(gateway: TestGateway): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

/** Sends an incomplete request. Resolves with the received text when the server closes the connection. */
function sendSlowly(gateway: TestGateway, begun: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => socket.write(begun))
    let answer = ''
    socket.on('data', (chunk) => (answer += chunk.toString()))
    socket.on('close', () => resolve(answer))
    socket.on('error', () => resolve(answer))
    socket.setTimeout(10_000, () => reject(new Error('the server waits for ever')))
  })
}
