import { expect } from 'chai'
import { webhookTypes } from '../../../gateway/webhooks/webhook-record.js'
import { eventKinds, typesOf } from '../../../panel/src/pages/webhooks/event-kinds.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { WebhookReceiver } from '../../support/gateway/webhook-receiver.js'

describe('the types of events that the panel offers for webhooks', () => {
  it('are those of the gateway', () => expect(eventKinds.flatMap(typesOf)).to.have.members([...webhookTypes]))
})

/** In this test, webhooks may only have public addresses as targets. */
describe('the rules for webhooks', () => {
  let gateway: TestGateway
  let receiver: WebhookReceiver
  let guest: Guest
  let names = 0
  before(async () => {
    const policy = { allowHttp: true, allowedTargets: [], setting: 'webhooks.allowed_targets' }
    const retries = { firstMs: 30, maxMs: 120, giveUpMs: 60_000 }
    gateway = await startTestGateway({ webhooks: { retries, policy } })
    guest = await gateway.fleet.addGuest()
    receiver = await WebhookReceiver.start()
  })
  after(async () => {
    await gateway.close()
    await receiver.down()
  })
  afterEach(async () => {
    for (const { id } of (await call('GET', '/webhooks')).body.data as Body[])
      await call('DELETE', `/webhooks/${String(id)}`)
  })

  /** URL whose host is a name, so that the gateway must resolve it before it knows the address. */
  const url = (): string => `http://localhost:${receiver.port}/`
  const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<Reply> =>
    gateway.request(method, path, body ? { body } : {})
  const make = async (fields: object = {}): Promise<{ id: string }> => {
    const reply = await call('POST', '/webhooks', { name: `hook-${++names}`, url: url(), ...fields })
    expect(reply.status, reply.text).to.equal(201)
    return reply.body.data as { id: string }
  }

  for (const [what, fields, code, field] of [
    ['a private address', { url: 'https://10.1.2.3/' }, 'invalid_field', 'url'],
    ['an unknown event', { events: ['guest.eaten'] }, 'invalid_field', 'events'],
    ['an event that exists only in the event stream', { events: ['usage.host'] }, 'invalid_field', 'events'],
    ['an empty list of events', { events: [] }, 'invalid_field', 'events'],
    ['an empty name', { name: '' }, 'invalid_field', 'name'],
  ] as const)
    it(`refuse ${what}`, async () => {
      const body = { name: `hook-${++names}`, url: url(), ...fields }
      const refused = await call('POST', '/webhooks', body)
      expect([refused.status, refused.body.code], refused.text).to.deep.equal([400, code])
      expect(refused.body.details.field).to.equal(field)
    })

  it('refuse a webhook for events that the caller is not allowed to read', async () => {
    const key = await gateway.makeKey({ scopes: ['webhook:manage', 'task:read'] })
    const post = (events: string[]) =>
      gateway.request('POST', '/webhooks', {
        key,
        body: { name: `by-key-${events[0]}`, url: url(), events },
      })
    const refused = await post(['guest.*'])
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'insufficient_scope'])
    expect((await post(['task.*'])).status).to.equal(201)
    const { id } = await make({ events: ['guest.*'] })
    const patched = await gateway.request('PATCH', `/webhooks/${id}`, { key, body: { url: url() } })
    expect(patched.status).to.equal(403)
    for (const body of [{ url: url() }, { rotate_secret: true }]) {
      const taken = await gateway.request('PATCH', `/webhooks/${id}`, {
        key,
        body: { ...body, events: ['task.*'] },
      })
      expect([taken.status, taken.body.code], taken.text).to.deep.equal([403, 'insufficient_scope'])
    }
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    expect((await gateway.request('GET', '/webhooks', { key: bound })).status).to.equal(403)
  })

  it('require unique names, and limit the number of webhooks', async () => {
    await make({ name: 'Twin' })
    const twin = await call('POST', '/webhooks', { name: 'twin', url: url() })
    expect([twin.status, twin.body.code]).to.deep.equal([409, 'name_conflict'])
    for (let n = 1; n < 20; n++) await make()
    const full = await call('POST', '/webhooks', { name: 'too many', url: url() })
    expect([full.status, full.body.code]).to.deep.equal([409, 'resource_exhausted'])
  })

  it('refuse an address of the gateway, and refuse deliveries to a name that resolves to such an address', async () => {
    const refused = await gateway.request('POST', '/webhooks', { body: { name: 'own', url: receiver.url } })
    expect([refused.status, refused.body.code]).to.deep.equal([400, 'invalid_field'])
    const { body } = await gateway.request('POST', '/webhooks', { body: { name: 'by-name', url: url() } })
    const path = `/webhooks/${(body.data as { id: string }).id}`
    await gateway.request('POST', `${path}/test`)
    const tried: Body = await waitFor(
      async () =>
        ((await gateway.request('GET', `${path}/deliveries`)).body.data as Body[]).find(
          ({ attempts }) => Number(attempts) > 1,
        ) as object,
    )
    expect([tried['response_status'], tried['error']]).to.satisfy(
      ([status, error]: unknown[]) => status === 0 && String(error).includes('is not a public address'),
    )
    expect(receiver.messages).to.deep.equal([])
  })
})
