import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import { GatewayGroup, type GroupMember } from '../support/gateway/gateway-group.js'
import { waitFor } from '../support/wait.js'

/** The second gateway does not answer the first one: its process is stopped, or it has no connection to Redis. */
describe('two gateways on one Redis server, one of which is silent', function () {
  let group: GatewayGroup
  let writer: GroupMember
  let silent: GroupMember
  before(async () => {
    group = await GatewayGroup.start(2)
    ;[writer, silent] = group.members as [GroupMember, GroupMember]
  })
  after(() => group?.close())
  afterEach(async () => {
    process.kill(silent.process.pid, 'SIGCONT')
    group.slowLine.release()
    await waitFor(async () => (await silent.request('GET', '/language')).status === 200, { what: 'both work' })
  })

  /** Creates an API key that the silent gateway has in its cache. */
  async function makeKey(): Promise<{ remove: () => Promise<number>; use: () => Promise<number> }> {
    const { body, status, text } = await writer.request('POST', '/api-keys', { body: { name: 'k', scopes: ['*'] } })
    expect(status, text).to.equal(201)
    const { id, key } = body.data
    const use = async () => (await silent.request('GET', '/language', { key })).status
    expect(await use()).to.equal(200)
    return { use, remove: async () => (await writer.request('DELETE', `/api-keys/${id}`)).status }
  }

  async function setLanguage(language: string): Promise<void> {
    expect((await writer.request('PUT', '/language', { body: { language } })).status).to.equal(200)
  }

  it('refuse a deleted key in the first request after the pause of the silent gateway', async () => {
    for (let round = 0; round < 5; round++) {
      const { use, remove } = await makeKey()
      process.kill(silent.process.pid, 'SIGSTOP')
      group.slowLine.hold() // so that the stopped gateway gets the request before the change
      expect(await remove()).to.equal(200)
      const used = use()
      await delay(50)
      process.kill(silent.process.pid, 'SIGCONT')
      await delay(50)
      group.slowLine.release()
      expect(await used).to.equal(401)
    }
  })

  it('accept changes, and show them in the first answer of the silent gateway after its pause', async () => {
    process.kill(silent.process.pid, 'SIGSTOP')
    for (let round = 0; round < 50; round++) await setLanguage(round % 2 === 0 ? 'en' : 'zh')
    const read = silent.request('GET', '/language')
    await delay(50)
    process.kill(silent.process.pid, 'SIGCONT')
    expect((await read).body.data.language).to.equal('zh')
  })

  it('refuse a deleted key everywhere, even at a gateway that is cut off from Redis', async () => {
    const { use, remove } = await makeKey()
    group.slowLine.hold()
    expect(await remove()).to.equal(200)
    expect(await use()).to.equal(503)
  })

  it('wait for the silent gateway only at the first of several changes, and log this wait', async () => {
    const before = warnings()
    process.kill(silent.process.pid, 'SIGSTOP')
    for (let round = 0; round < 10; round++) await setLanguage('en')
    expect(warnings()).to.equal(before + 1)
  })

  const warnings = (): number => writer.process.logTail(100_000).split('another gateway is silent').length - 1
})
