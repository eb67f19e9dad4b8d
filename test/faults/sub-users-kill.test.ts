import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { joinGateway } from '../../agent/enrollment/join.js'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { apiCall } from '../support/gateway/api-call.js'
import { endLeftGateway, GatewayProcess, type GatewayReply } from '../support/gateway/gateway-process.js'
import { expectMutationsAsked, findUnasked } from '../support/gateway/killed-mutations.js'
import { LabAgent } from '../support/memory/lab-agent.js'
import { silentLog } from '../support/gateway/redis.js'
import { scratchDirectory } from '../support/scratch.js'
import type { MadeSubUser } from '../support/gateway/sub-user-calls.js'
import { waitFor } from '../support/wait.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 6)
const directory = '/var/tmp/btest-sub-users-kill'
const customers = 4
/** This route is called only by the check at the end of the test. */
const login = 'POST /sub-user/access'

/** The last acknowledged state of a customer's account. */
interface CustomerAccount {
  readonly id: string
  readonly username: string
  password: string
  accessCode: string
  limit: number
}

/** Kills a real gateway and its Redis while sub-users are created, changed and get new passwords. */
describe(`the gateway and its Redis, killed ${kills} times while sub-users change`, function () {
  let gateway: GatewayProcess
  let redis: RedisProcess
  let agent: LabAgent
  let ended = false
  const asked = new Set<string>()
  let wipe: () => void

  before(async () => {
    await endLeftGateway(join(directory, 'gateway'))
    wipe = scratchDirectory('btest-sub-users-kill').wipe
    gateway = await GatewayProcess.create(join(directory, 'gateway'))
    const [stateDir, runDir] = [join(gateway.directory, 'state'), join(gateway.directory, 'run')]
    redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
    gateway.start()
    await gateway.ready()
    const host = { name: 'host-a', address: '127.0.0.1:1' }
    const { data } = (await gateway.request('POST', '/hosts', { body: host })).body as {
      data: { join_token: string; host: { id: string } }
    }
    const identityDir = join(directory, 'agent')
    await joinGateway(data.join_token, identityDir)
    agent = await LabAgent.start({ identityDir, parallel: 0 })
    for (let n = 0; n < customers; n++) agent.addGuest({ name: `guest-${n}`, id: n + 1 })
    await gateway.request('PATCH', `/hosts/${data.host.id}`, { body: { address: agent.address } })
    await waitFor(async () => (await get<object[]>('/containers')).length === customers, {
      what: 'the guests are there',
    })
  })

  after(async () => {
    ended = true
    await gateway?.close()
    await agent?.destroy()
    wipe?.()
  })

  const get = async <R>(path: string): Promise<R> => ((await gateway.request('GET', path)).body as { data: R }).data

  /** Repeats a request, as a client does, with the same idempotency key until it is answered. */
  async function insist<R>(method: 'POST' | 'PATCH', path: string, body: object): Promise<R> {
    asked.add(`${method} ${path}`)
    const headers = method === 'POST' ? { 'idempotency-key': randomUUID() } : {}
    for (;;) {
      if (ended) throw new Error('the test has ended')
      const reply: GatewayReply | undefined = await gateway
        .request(method, path, { body, headers })
        .catch(() => undefined)
      if (reply?.status === 200) return (reply.body as { data: R }).data
      const { code = '' } = (reply?.body ?? {}) as { code?: string }
      // A gateway that has just started may answer `not_found`, because it does not know the guests yet.
      if (reply && reply.status < 500 && !['task_running', 'not_found'].includes(code))
        throw new Error(`${method} ${path}: ${reply.status} ${reply.text}`)
      await delay(randomInt(20, 150))
    }
  }

  async function make(container: string, username: string): Promise<CustomerAccount> {
    const fields = { container_name: container, username, port_mapping_limit: 1 }
    const made = await insist<MadeSubUser>('POST', '/sub-user/create', fields)
    expect(made.password, username).not.to.equal('')
    return { id: made.id, username, password: made.password, accessCode: made.access_code, limit: 1 }
  }

  async function change(known: CustomerAccount): Promise<void> {
    if (randomInt(2) === 0) {
      const limit = randomInt(2, 1000)
      await insist('PATCH', `/sub-users/${known.id}`, { port_mapping_limit: limit })
      known.limit = limit
    } else {
      const path = `/sub-users/${known.id}/rotate-password`
      const rotated = await insist<MadeSubUser>('POST', path, { rotate_code: true })
      known.password = rotated.password
      known.accessCode = rotated.access_code
    }
  }

  async function killOne(round: number): Promise<void> {
    if (round % 3 === 2) {
      process.kill(await waitFor(() => redis.findPid()), 'SIGKILL')
      return
    }
    await gateway.kill()
    gateway.start()
    await gateway.ready()
  }

  it('keep all acknowledged changes, and create each account exactly once', async () => {
    const all: CustomerAccount[] = []
    let stopped = false
    const runs = Array.from({ length: customers }, async (_, customer) => {
      for (let n = 0; !stopped; n++) {
        const known = await make(`guest-${customer}`, `customer-${customer}-${n}`)
        all.push(known)
        for (let changes = 0; changes < 3 && !stopped; changes++) await change(known)
      }
    })
    const over = Promise.all(runs)
    over.catch(() => (stopped = true))
    // Kills at least `kills` times, and until each kind of request was sent, because a busy host answers slowly.
    const isComplete = (): boolean => findUnasked('sub-users-kill', { asked }).every((route) => route === login)
    for (let round = 0; (round < kills || !isComplete()) && !stopped; round++) {
      await delay(randomInt(100, 800))
      await killOne(round)
    }
    stopped = true
    await over
    await gateway.ready()
    expect(all).to.not.have.length(0)
    await expectKept(all)
    expectMutationsAsked('sub-users-kill', { asked })
  })

  async function expectKept(all: readonly CustomerAccount[]): Promise<void> {
    const rows =
      await get<{ id: string; username: string; access_code: string; port_mapping_limit: number }[]>('/sub-users')
    expect(rows.map(({ username }) => username).sort()).to.deep.equal(all.map(({ username }) => username).sort())
    for (const { id, username, password, accessCode, limit } of all) {
      const row = rows.find((one) => one.id === id)
      expect(row, username).to.include({ username, access_code: accessCode, port_mapping_limit: limit })
      const body = JSON.stringify({ code: accessCode, password })
      const headers = { 'content-type': 'application/json' }
      asked.add(login)
      const options = { headers, body }
      const { status, text } = await apiCall(gateway.url, ['POST', '/api/v1/sub-user/access'], options)
      expect(status, `${username}: ${text}`).to.equal(200)
    }
  }
})
