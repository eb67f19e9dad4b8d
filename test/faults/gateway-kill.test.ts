import { expect } from 'chai'
import { randomInt, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import type { GatewayProcess, GatewayReply } from '../support/gateway/gateway-process.js'
import { readInventory } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { silentLog } from '../support/gateway/redis.js'
import { ServedHost } from '../support/host/served-host.js'
import { waitFor } from '../support/wait.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 10)
const customers = 6
/** Maximum number of orders per customer between two kills, so that a slow machine does not get too many orders. */
const mostPerKill = 2

interface CreatedContainer {
  task_id: string
  id: number
  uuid: string
  name: string
  ssh_password: string
}

interface Order {
  key: string
  name: string
  attempts: number
  created: CreatedContainer
}

/** Kills a real gateway and its Redis while clients create guests of a real agent. */
describe(`the gateway and its Redis, killed ${kills} times while containers are created`, function () {
  const lab = new ServedHost({
    name: 'fgk',
    prefix: '198.18.113',
    overrides: { placement: { ram_ratio: 0, disk_ratio: 0 } }, // no limits, because no guest runs
  })
  const { host } = lab
  let gateway: GatewayProcess
  let redis: RedisProcess
  let ended = false

  before(async () => {
    await lab.start()
    gateway = lab.gateway
    const [stateDir, runDir] = ['state', 'run'].map((name) => join(gateway.directory, name)) as [string, string]
    redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
  })

  after(async () => {
    ended = true
    await lab.close()
  })

  const get = async <R>(path: string): Promise<R> => ((await gateway.request('GET', path)).body as { data: R }).data

  const create = (key: string, name: string): Promise<GatewayReply | undefined> => {
    const body = { name, template_id: 'debian-12', vcpu: 0.1, ram_mb: 64, disk_gb: 1, start: false }
    const headers = { 'idempotency-key': key }
    return gateway.request('POST', '/containers', { body, headers }).catch(() => undefined)
  }

  /** Repeats a request, as a client does, with the same idempotency key until it is answered. */
  async function order(name: string): Promise<Order> {
    const key = randomUUID()
    for (let attempts = 1; ; attempts++) {
      if (ended) throw new Error('the test has ended')
      const reply = await create(key, name)
      if (reply?.status === 202)
        return { key, name, attempts, created: (reply.body as { data: CreatedContainer }).data }
      const { code = '' } = (reply?.body ?? {}) as { code?: string }
      if (reply && reply.status < 500 && code !== 'task_running')
        throw new Error(`${name}: ${reply.status} ${JSON.stringify(reply.body)}`)
      await delay(randomInt(20, 200))
    }
  }

  async function killOne(round: number): Promise<void> {
    if (round % 4 === 3) {
      process.kill(await waitFor(() => redis.findPid()), 'SIGKILL')
      return
    }
    await gateway.kill()
    gateway.start()
    await gateway.ready()
  }

  it('lose no acknowledged task, and create each container exactly once', async () => {
    const orders: Order[] = []
    let [stopped, round] = [false, 0]
    const runs = Array.from({ length: customers }, async (_, customer) => {
      for (let n = 0; !stopped; n++) {
        orders.push(await order(`kill-${customer}-${n}`))
        await delay(randomInt(100, 400))
        while (!stopped && n >= mostPerKill * (round + 1)) await delay(50)
      }
    })
    const over = Promise.all(runs)
    over.catch(() => (stopped = true))
    // Kills at least `kills` times, and until `kills` requests are answered, because a busy host answers slowly.
    for (; (round < kills || orders.length < kills) && !stopped; round++) {
      await delay(randomInt(50, 600))
      await killOne(round)
    }
    stopped = true
    await over
    await lab.online()
    expect(orders.filter(({ attempts }) => attempts > 1)).to.not.have.length(0)
    await expectTasks(orders)
    await expectRepeatable(orders)
    await expectOnce(orders)
  })

  async function expectTasks(orders: readonly Order[]): Promise<void> {
    for (const { created } of orders) {
      const task = await waitFor(
        async () => {
          const found = await get<{ status: string; error: string }>(`/tasks/${created.task_id}`)
          return ['pending', 'running'].includes(found.status) ? undefined : found
        },
        { what: `task of ${created.name}` },
      )
      expect(task.status, `${created.name}: ${task.error}`).to.equal('done')
    }
  }

  async function expectRepeatable(orders: readonly Order[]): Promise<void> {
    for (const { key, name, created } of orders) {
      const reply = await waitFor(async () => {
        const again = await create(key, name)
        return again?.status === 202 ? again : undefined
      })
      const { data } = reply.body as { data: CreatedContainer }
      const { task_id, id, uuid, ssh_password } = created
      expect(data).to.include({ task_id, id, uuid, name, ssh_password })
    }
  }

  /** Expects each requested container once in the API, in the agent's journal, and on the host. */
  async function expectOnce(orders: readonly Order[]): Promise<void> {
    const uuids = orders.map(({ created }) => created.uuid).sort()
    const ids = orders.map(({ created }) => created.id)
    const rows = await get<{ uuid: string; name: string }[]>('/containers')
    expect(rows.map(({ uuid }) => uuid).sort()).to.deep.equal(uuids)
    expect(rows.map(({ name }) => name).sort()).to.deep.equal(orders.map(({ name }) => name).sort())
    expect(new Set(ids).size).to.equal(ids.length)
    const inventory = readInventory(host.instance)
    expect(inventory).to.deep.equal(readExpected(host.instance))
    expect(inventory.subvolumes).to.deep.equal(uuids)
  }
})
