import { expect } from 'chai'
import { defaultCreationLimits } from '../../../gateway/access/creation-limits.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const mostKeys = defaultCreationLimits.apiKeys.bound

/** A customer with a key for one container can create more keys with this key, and still more keys with those. */
describe('a key bound to a container and the keys that it created', function () {
  let gateway: TestGateway
  let bound = ''
  const streams: EventStream[] = []

  before(async () => {
    gateway = await startTestGateway({
      events: { maxListeners: 40 },
      limits: { caller: { perSecond: 1000, atOnce: 0 } },
    })
    const { uuid } = await gateway.fleet.addGuest({ name: 'web' })
    bound = await gateway.makeKey({
      container_uuids: [uuid],
      scopes: ['apikey:*', 'container:read', 'task:read'],
    })
  })
  afterEach(() => streams.splice(0).forEach((stream) => stream.close()))
  after(() => gateway.close())

  const makeChild = async (key: string) =>
    gateway.request('POST', '/api-keys', {
      key,
      body: { name: 'child', scopes: ['container:read', 'task:read', 'apikey:*'] },
    })
  const listen = async (key: string): Promise<string> => {
    try {
      streams.push(await EventStream.open(gateway.url, { 'x-api-key': key }))
      return ''
    } catch (error) {
      return (error as Error).message.slice(0, 3)
    }
  }

  it('share one limit of event streams, so that other callers can still open streams', async () => {
    const keys = [bound]
    for (let n = 0; n < 4; n++) keys.push((await makeChild(keys.at(-1)!)).body.data.key as string)
    const answers = []
    for (const key of keys) answers.push(await listen(key))
    expect(answers).to.deep.equal(['', '', '503', '503', '503'])
    expect(await listen(gateway.adminKey), 'an administrator').to.equal('')
    expect(await listen(await gateway.makeKey({ scopes: ['task:read'] })), 'another key').to.equal('')
  })

  it('share one limit on the rate of requests', async () => {
    const child = (await makeChild(bound)).body.data.key as string
    const left = async (key: string): Promise<number> =>
      Number((await gateway.request('GET', '/containers', { key })).headers['ratelimit-remaining'])
    for (let n = 0; n < 200; n++) await gateway.request('GET', '/containers', { key: child })
    expect(await left(bound)).to.be.lessThan(1000)
    expect(await left(await gateway.makeKey({ scopes: ['container:read'] }))).to.equal(999)
  })

  it(`share one limit of ${mostKeys} keys, and get the answer 409 for a further key`, async () => {
    const made: string[] = [bound]
    let refused: Awaited<ReturnType<typeof makeChild>> | undefined
    while (refused === undefined && made.length < 2 * mostKeys) {
      const reply = await makeChild(made.length % 2 === 0 ? bound : (made[1] ?? bound))
      if (reply.status === 201) made.push(reply.body.data.key as string)
      else refused = reply
    }
    expect([refused?.status, refused?.body.code]).to.deep.equal([409, 'key_limit_reached'])
    expect(refused?.body.message).to.include(String(mostKeys))
    expect((await makeChild(gateway.adminKey)).status, 'others continue').to.equal(201)
    const { body } = await gateway.request('GET', '/api-keys', { key: bound })
    const rows = body.data as { id: number }[]
    await gateway.request('DELETE', `/api-keys/${rows.at(-1)!.id}`, { key: bound })
    await waitFor(async () => (await makeChild(bound)).status === 201, { what: 'a free slot after a deletion' })
  })
})
