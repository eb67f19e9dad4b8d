import { expect } from 'chai'
import { join } from 'node:path'
import { Closers } from '../../agent/daemon/closers.js'
import { joinGateway } from '../../agent/enrollment/join.js'
import { Browser, makeAdmin, password } from '../support/gateway/browser.js'
import { GatewayGroup, type GroupMember } from '../support/gateway/gateway-group.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { SlowLine } from '../support/slow-line.js'
import { waitFor } from '../support/wait.js'

/** Number of rounds, each with one change. The default reveals a gateway that never waits. Rare races need more. */
const rounds = Number(process.env['BERTH_TEST_ROUNDS'] ?? 60)
/** Delay in ms with which one of the gateways learns of changes. */
const slowMs = 10
/** Fewer rounds than in other tests, because each login needs much processor time to hash the password. */
const loginRounds = rounds / 2

describe('three gateways on one Redis', function () {
  let group: GatewayGroup
  let writer: GroupMember
  let others: readonly GroupMember[]
  before(async () => {
    group = await GatewayGroup.start(3, { slowMs })
  })
  after(() => group?.close())
  /** Closes what a test has started, even if the test failed before it had started everything. */
  const closers = new Closers()
  afterEach(() => closers.run())
  beforeEach(() => chooseWriter(0))

  /** Selects the gateway at which this round writes. The round reads at all other gateways. */
  const chooseWriter = (round: number): void => {
    const { members } = group
    writer = members[round % members.length]!
    others = members.filter((member) => member !== writer)
  }

  async function makeKey(): Promise<{ id: number; key: string }> {
    const { body, text, status } = await writer.request('POST', '/api-keys', { body: { name: 'k', scopes: ['*'] } })
    expect(status, text).to.equal(201)
    return { id: body.data.id, key: body.data.key }
  }

  /** HTTP statuses of a request that is sent to all gateways except the writer. */
  const statusesOf = async (request: (member: GroupMember) => Promise<{ status: number }>): Promise<number[]> =>
    (await Promise.all(others.map(request))).map(({ status }) => status)

  const countOf = <T>(values: readonly T[], value: T): number => values.filter((one) => one === value).length

  it('refuse an API key as soon as it is deleted', async () => {
    const seen: number[] = []
    for (let round = 0; round < rounds; round++) {
      chooseWriter(round)
      const { id, key } = await makeKey()
      const use = (member: GroupMember) => member.request('GET', '/language', { key })
      expect(await statusesOf(use)).to.deep.equal([200, 200])
      expect((await writer.request('DELETE', `/api-keys/${id}`)).status).to.equal(200)
      seen.push(...(await statusesOf(use)))
    }
    expect(countOf(seen, 401), `of ${seen.length}`).to.equal(seen.length)
  })

  /** Logs in at the gateway `writer`. @returns the browser, and a function that uses the session at another gateway */
  async function login(
    username: string,
  ): Promise<{ browser: Browser; use: (member: GroupMember) => Promise<{ status: number }> }> {
    const browser = new Browser(writer)
    const { status, text } = await browser.login(username, password)
    expect(status, text).to.equal(200)
    const headers = { cookie: `berth=${browser.token}` }
    return { browser, use: (member) => member.request('GET', '/session', { key: '', headers }) }
  }

  it('refuse a session as soon as its user has logged out', async () => {
    await makeAdmin(writer, 'one')
    const seen: number[] = []
    for (let round = 0; round < loginRounds; round++) {
      chooseWriter(round)
      const { browser, use } = await login('one')
      expect(await statusesOf(use)).to.deep.equal([200, 200])
      expect((await browser.request('POST', '/logout')).status).to.equal(200)
      seen.push(...(await statusesOf(use)))
    }
    expect(countOf(seen, 401), `of ${seen.length}`).to.equal(seen.length)
  })

  it('refuse all sessions of an account as soon as it is disabled', async () => {
    const id = await makeAdmin(writer, 'two')
    const disable = (disabled: boolean) => writer.request('PATCH', `/admins/${id}`, { body: { disabled } })
    const seen: number[] = []
    for (let round = 0; round < loginRounds; round++) {
      chooseWriter(round)
      const { use } = await login('two')
      expect(await statusesOf(use)).to.deep.equal([200, 200])
      const { status, text } = await disable(true)
      expect(status, text).to.equal(200)
      seen.push(...(await statusesOf(use)))
      await disable(false)
    }
    expect(countOf(seen, 401), `of ${seen.length}`).to.equal(seen.length)
  })

  it('show a setting as soon as it changes', async () => {
    let stale = 0
    for (let round = 0; round < rounds; round++) {
      chooseWriter(round)
      const language = round % 2 === 0 ? 'zh' : 'en'
      expect((await writer.request('PUT', '/language', { body: { language } })).status).to.equal(200)
      const replies = await Promise.all(others.map((member) => member.request('GET', '/language')))
      stale += replies.filter(({ body }) => body.data.language !== language).length
    }
    expect(stale).to.equal(0)
  })

  it('show a change of a container immediately, even if some connections to its host are slow', async () => {
    await addAgent()
    let stale = 0
    for (let round = 0; round < rounds / 3; round++) {
      chooseWriter(round)
      const expiry = `${2040 + (round % 50)}-01-02 00:00:00`
      const body = { expires_at: expiry }
      expect((await writer.request('PUT', '/containers/1/expiry', { body })).status).to.equal(200)
      const replies = await Promise.all(others.map((member) => member.request('GET', '/containers/1')))
      stale += replies.filter(({ body }) => body.data.expires_at !== expiry).length
    }
    expect(stale).to.equal(0)
  })

  /** Adds a host with a container. Connections to the host's agent are alternately fast and slow. */
  async function addAgent(): Promise<void> {
    const made = await writer.request('POST', '/hosts', { body: { name: 'slow', address: '127.0.0.1:2' } })
    const { host, join_token: token } = made.body.data
    const identityDir = join(group.directory, 'agent')
    await joinGateway(token, identityDir)
    const agent = await LabAgent.start({ identityDir })
    closers.add(() => agent.destroy())
    agent.seed(1, 1)
    const port = Number(agent.address.split(':')[1])
    const line = await SlowLine.start({ port, host: '127.0.0.1' }, 5 * slowMs, (_, connection) => connection % 2 === 0)
    closers.add(() => line.close())
    await writer.request('PATCH', `/hosts/${host.id}`, { body: { address: line.address } })
    for (const member of group.members)
      await waitFor(async () => (await member.request('GET', `/hosts/${host.id}`)).body.data.status === 'online')
  }

  it('show a new host immediately, and show immediately whether a host is draining', async () => {
    const made = await writer.request('POST', '/hosts', { body: { name: 'host', address: '127.0.0.1:1' } })
    const path = `/hosts/${made.body.data.host.id}`
    expect(await statusesOf((member) => member.request('GET', path))).to.deep.equal([200, 200])
    let stale = 0
    for (let round = 0; round < rounds; round++) {
      chooseWriter(round)
      const draining = round % 2 === 0
      expect((await writer.request('PATCH', path, { body: { draining } })).status).to.equal(200)
      const replies = await Promise.all(others.map((member) => member.request('GET', path)))
      stale += replies.filter(({ body }) => body.data.draining !== draining).length
    }
    expect(stale).to.equal(0)
  })
})
