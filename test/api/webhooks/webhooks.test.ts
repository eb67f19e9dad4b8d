import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { closing, startRawServer } from '../../support/raw-server.js'
import { waitFor } from '../../support/wait.js'
import { answers, expectedSignature, takes, WebhookReceiver } from '../../support/gateway/webhook-receiver.js'

const retries = { firstMs: 30, maxMs: 120, giveUpMs: 60_000 }

describe('webhooks', function () {
  let gateway: TestGateway
  let receiver: WebhookReceiver
  let guest: Guest
  let other: Guest
  let names = 0

  before(async () => {
    gateway = await startTestGateway({ webhooks: { retries, timeoutMs: 3000 } })
    guest = await gateway.fleet.addGuest({ name: 'told-of' })
    other = await gateway.fleet.addGuest({ name: 'another' })
  })
  after(() => gateway.close())
  beforeEach(async () => {
    receiver = await WebhookReceiver.start()
  })
  afterEach(async () => {
    for (const { id } of (await call('GET', '/webhooks')).body.data as Body[])
      await call('DELETE', `/webhooks/${String(id)}`)
    await receiver.down().catch(() => undefined)
  })

  const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<Reply> =>
    gateway.request(method, path, body ? { body } : {})
  const make = async (fields: object = {}): Promise<{ id: string; secret: string }> => {
    const reply = await call('POST', '/webhooks', { name: `hook-${++names}`, url: receiver.url, ...fields })
    expect(reply.status, reply.text).to.equal(201)
    return reply.body.data as { id: string; secret: string }
  }
  const change = async (text: string, { uuid } = guest): Promise<void> => {
    gateway.fleet.agentOf('host-a').update(uuid, { statusReason: text })
    await gateway.fleet.caughtUp('host-a')
  }
  const reasons = (uuid = guest.uuid): unknown[] =>
    receiver.messages.filter(({ body }) => body.container_uuid === uuid).map(({ body }) => body.data['status_reason'])
  const deliveries = async (id: string): Promise<Body[]> =>
    (await call('GET', `/webhooks/${id}/deliveries`)).body.data as Body[]
  const ended = (id: string, status: string): Promise<Body> =>
    waitFor(async () => (await deliveries(id)).find((one) => one['status'] === status) as object, {
      what: `one that is ${status}`,
    })

  it('sign each delivery with a secret that is shown only once', async () => {
    const { id, secret } = await make({ events: ['guest.*'] })
    await change('told')
    const message = await receiver.type('guest.updated')
    const { body } = await call('GET', `/containers/${guest.id}`)
    const { owners, ...row } = body.data
    expect(owners).to.deep.equal([])
    expect(message.body.data).to.deep.equal(row)
    expect(message.headers['webhook-signature']).to.equal(expectedSignature(secret, message))
    expect(message.headers['webhook-id']).to.equal(message.body.id)
    expect(Date.now() / 1000 - Number(message.headers['webhook-timestamp'])).to.be.within(-2, 30)
    for (const path of ['/webhooks', `/webhooks/${id}`])
      expect((await call('GET', path)).text, path).not.to.include(secret)
    expect(await gateway.redis.readAof()).not.to.include(secret)
    const { secret: next } = (await call('PATCH', `/webhooks/${id}`, { rotate_secret: true })).body.data
    await change('told again')
    const second = await receiver.wait(({ text }) => text.includes('told again'), 'another')
    expect(second.headers['webhook-signature']).to.equal(expectedSignature(String(next), second))
    expect(second.headers['webhook-signature']).not.to.equal(expectedSignature(secret, second))
  })

  it('deliver only the selected events, and no events while they are disabled', async () => {
    const { id } = await make({ events: ['task.pending'] })
    await change('not asked for')
    await call('POST', `/containers/${guest.id}/restart`)
    await receiver.type('task.pending')
    await call('PATCH', `/webhooks/${id}`, { disabled: true })
    await call('POST', `/containers/${other.id}/restart`)
    await call('PATCH', `/webhooks/${id}`, { disabled: false })
    await call('POST', `/webhooks/${id}/test`)
    await receiver.type('webhook.test')
    expect(receiver.types).to.deep.equal(['task.pending', 'webhook.test'])
  })

  it('repeat failed deliveries in order for each container, without a delay for other containers', async () => {
    await make({ events: ['guest.*'] })
    let failures = 4
    receiver.answer = (response, message, count) => {
      const fails = message.body.container_uuid === guest.uuid && failures-- > 0
      return (fails ? answers(500) : takes)(response, message, count)
    }
    for (const text of ['first', 'second', 'third']) await change(text)
    await change('of another', other)
    await receiver.wait(({ text }) => text.includes('third'), 'the last')
    expect(reasons()).to.deep.equal(['first', 'first', 'first', 'first', 'first', 'second', 'third'])
    expect(reasons(other.uuid)).to.deep.equal(['of another'])
    const ids = receiver.messages.filter(({ text }) => text.includes('"first"')).map(({ body }) => body.id)
    expect(new Set(ids).size, 'every attempt has the same id').to.equal(1)
  })

  it('deliver an event when the receiver is back', async () => {
    const { id } = await make({ events: ['guest.*'] })
    await receiver.down()
    await change('while it was down')
    const retrying = await ended(id, 'retrying')
    expect([retrying['response_status'], retrying['error']]).to.satisfy(
      ([status, error]: unknown[]) => status === 0 && String(error).includes('ECONNREFUSED'),
    )
    await receiver.up()
    await receiver.wait(({ text }) => text.includes('while it was down'), 'it')
    expect((await ended(id, 'delivered'))['response_status']).to.equal(204)
  })

  it('end an attempt that takes too long, and repeat the delivery', async () => {
    const { id } = await make({ events: ['guest.*'] })
    receiver.answer = (response, message, count) => (count === 0 ? undefined : takes(response, message, count))
    await change('slow')
    await waitFor(() => receiver.messages.length === 2)
    expect((await ended(id, 'delivered'))['attempts']).to.equal(2)
  })

  it('do not follow redirects', async () => {
    const elsewhere = await WebhookReceiver.start()
    const { id } = await make({ events: ['guest.*'] })
    for (const status of [301, 302, 307, 308]) {
      receiver.answer = answers(status, { location: elsewhere.url })
      await change(`redirected ${status}`)
      await waitFor(async () =>
        (await deliveries(id)).some((one) => one['response_status'] === status && one['status'] === 'retrying'),
      )
    }
    expect(elsewhere.messages).to.deep.equal([])
    await elsewhere.down()
  })

  it('read only the status and a small part of a receiver’s answer', async () => {
    const { id } = await make({ events: ['guest.*'] })
    let sent = 0
    for (const [name, answer] of [
      [
        'less than announced',
        (r: Parameters<typeof takes>[0]) => (
          r.writeHead(200, { 'content-length': '999' }),
          r.write('x'),
          setImmediate(() => r.destroy())
        ),
      ],
      [
        'a body without end',
        (r: Parameters<typeof takes>[0]) => {
          r.writeHead(200)
          const more = (): void => {
            while (!r.destroyed && r.write('y'.repeat(16_384))) sent += 16_384
            if (!r.destroyed) r.once('drain', more)
          }
          more()
        },
      ],
    ] as const) {
      receiver.answer = (response) => void answer(response)
      await change(name)
      await waitFor(async () => (await deliveries(id)).filter((one) => one['status'] === 'delivered').length > 0)
      await waitFor(async () => (await deliveries(id)).every((one) => one['status'] === 'delivered'))
    }
    expect(sent).to.be.lessThan(32 * 1024 ** 2)
    receiver.answer = (response) => void response.socket?.end('HTTP/1.1 nonsense\r\n\r\n')
    await change('no HTTP')
    await ended(id, 'retrying')
    receiver.answer = takes
    await waitFor(async () => (await deliveries(id)).every((one) => one['status'] === 'delivered'))
  })

  it('are delivered even if the receiver sends a long answer and closes the connection immediately', async () => {
    for (const [headers, bytes] of [
      ['Content-Length: 16000', 16_000],
      ['Content-Length: 200000', 200_000],
      ['Content-Length: 300000', 200_000],
      ['Server: x', 200_000],
    ] as const) {
      const raw = await startRawServer((socket) => {
        closing(`200 OK\r\n${headers}`, Buffer.alloc(bytes))(socket)
        // Blocks the gateway, which runs in this process, so that it gets the data and the connection's end together.
        for (const endMs = performance.now() + 20; performance.now() < endMs;);
      })
      const { id } = await make({ events: ['task.pending'], url: raw.url })
      for (let n = 0; n < 5; n++) await call('POST', `/webhooks/${id}/test`)
      await waitFor(async () => (await deliveries(id)).filter((one) => one['status'] === 'delivered').length === 5, {
        what: `${headers}: delivered`,
      })
      await raw.close()
    }
  })

  it('deliver an event again on request', async () => {
    const { id } = await make({ events: ['guest.*'] })
    await change('by hand')
    const first = await ended(id, 'delivered')
    const again = await call('POST', `/webhooks/${id}/deliveries/${String(first['id'])}/redeliver`)
    expect(again.status).to.equal(202)
    await waitFor(() => receiver.messages.length === 2)
    const [one, two] = receiver.messages
    expect([two?.text, two?.headers['webhook-id']]).to.deep.equal([one?.text, one?.headers['webhook-id']])
    const unknown = await call('POST', `/webhooks/${id}/deliveries/nothing/redeliver`)
    expect([unknown.status, unknown.body.code]).to.deep.equal([404, 'not_found'])
  })

  it('refuse to repeat a delivery if the caller is not allowed to read its event', async () => {
    const { id } = await make({ events: ['guest.*'] })
    await change('not for all')
    const first = await ended(id, 'delivered')
    const path = `/webhooks/${id}/deliveries/${String(first['id'])}/redeliver`
    const [refused, taken] = await Promise.all(
      ['task:read', 'container:read'].map(async (scope) => {
        const key = await gateway.makeKey({ scopes: ['webhook:manage', scope] })
        return gateway.request('POST', path, { key })
      }),
    )
    expect([refused?.status, refused?.body.code]).to.deep.equal([403, 'insufficient_scope'])
    expect(taken?.status).to.equal(202)
  })

  it('are recorded in the audit log without the secret parts of their URL', async () => {
    const { id } = await make({ url: `${receiver.url}/SECRET-1?key=SECRET-2` })
    await call('PATCH', `/webhooks/${id}`, { url: `${receiver.url}/SECRET-3` })
    await call('PATCH', `/webhooks/${id}`, { url: 'https:// SECRET-4' })
    await call('DELETE', `/webhooks/${id}`)
    const { text, body } = await call('GET', '/audit-logs?page_size=4')
    expect(text).not.to.include('SECRET')
    const { origin } = new URL(receiver.url)
    expect((body.data as Body[]).map((row) => [String(row['action']), String(row['detail'])])).to.deep.include.members([
      ['webhook.delete', origin],
      ['webhook.update', origin],
      ['webhook.create', origin],
    ])
  })

  it('are deleted together with their pending deliveries', async () => {
    const { id } = await make({ events: ['guest.*'] })
    receiver.answer = answers(500)
    await change('in vain')
    await ended(id, 'retrying')
    expect((await call('DELETE', `/webhooks/${id}`)).status).to.equal(200)
    await waitFor(async () => (await gateway.store.client.exists(`btest:webhook-queue:${id}`)) === 0)
    expect((await call('GET', `/webhooks/${id}/deliveries`)).status).to.equal(404)
  })
})
