import { expect } from 'chai'
import { catalog } from '../../agent/images/catalog.js'
import { pino } from 'pino'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { BerthError } from '../../shared/errors.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { startAgentProcess } from '../support/attacks/rogue-agent.js'
import { codeOf, creationRequest, startTestFleet, type TestFleet } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

describe('agents that are removed or misbehave', function () {
  let redis: TestRedis
  before(async () => (redis = await startTestRedis()))
  after(() => redis.stop())
  let test: TestFleet
  const logged: string[] = []
  const log = pino({ level: 'warn' }, { write: (line) => logged.push(line) })
  beforeEach(async () => {
    logged.length = 0
    test = await startTestFleet({}, { log, redis })
  })
  afterEach(() => test.close())

  it('are refused after they were removed, and their guests are no longer shown', async () => {
    const { hostId, agent } = await test.addHost('one', { guests: 2 })
    expect(await codeOf(test.fleet.hosts.removeHost(hostId, { force: false }))).to.equal('invalid_state')
    await test.fleet.hosts.removeHost(hostId, { force: true })
    expect(test.fleet.view.hosts()).to.deep.equal([])
    expect([...test.fleet.view.guests()]).to.deep.equal([])
    expect(await codeOf(test.fleet.hosts.createJoinToken(hostId))).to.equal('not_found')
    expect(() => test.fleet.agent(hostId)).to.throw(BerthError)
    // The removed agent must not be accepted as a new host, even if the new host is created with the agent's address.
    const { id } = await test.fleet.hosts.createHost({ name: 'two', address: agent.address })
    expect(test.fleet.view.findHost(id)?.state).to.equal('pending')
  })

  it('do not delay calls to other agents when they stop answering', async () => {
    const never = new Promise<void>(() => undefined)
    const good = await test.addHost('good')
    const description = test.fleet.view.findHost(good.hostId)!.description!
    const templates = [...test.fleet.view.templates()].map(({ template }) => template)
    const stalled = await test.addRogue('stalled', {
      events: (hostId) => [
        { $case: 'host', value: { ...description, hostId } },
        ...templates.map((value) => ({ $case: 'template', value }) as const),
      ],
      onCall: () => never,
    })
    let given = 0
    const calls = Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        codeOf(test.fleet.createGuest(creationRequest(`s${n}`, { hostId: stalled.hostId }))).finally(() => given++),
      ),
    )
    expect(await codeOf(test.fleet.createGuest(creationRequest('fine', { hostId: good.hostId })))).to.equal('ok')
    expect(given, 'given up before').to.equal(0)
    expect(new Set(await calls)).to.deep.equal(new Set(['agent_timeout']))
  })

  it('cannot change another host or its guests and operations, and cause a warning if they try to', async () => {
    const good = await test.addHost('good', { guests: 1 })
    const { response } = await test.fleet.createGuest(creationRequest('web'))
    const { guest } = test.fleet.view.findGuest('sim-1')!
    const bad = await test.addRogue('bad', {
      events: () => [
        { $case: 'host', value: test.fleet.view.findHost(good.hostId)!.description! },
        { $case: 'guest', value: { ...guest, statusReason: 'lie' } },
        { $case: 'guest', value: { ...guest, name: '__proto__' } },
        { $case: 'removed', value: { kind: 'guest', key: guest.uuid } },
        { $case: 'operation', value: { ...response.operation!, error: 'lie' } },
        { $case: 'removed', value: { kind: 'operation', key: response.operation!.id } },
        { $case: 'removed', value: { kind: 'template', key: 'debian-12' } },
      ],
    })
    const { view } = test.fleet
    expect(view.findGuest('sim-1')?.guest.statusReason).to.equal('')
    expect(view.findOperation(response.operation!.id)).to.include({ hostId: good.hostId })
    expect(view.findOperation(response.operation!.id)?.operation.error).to.equal('')
    const templates = [...view.templates()].map(({ hostId, template: { id } }) => [hostId, id])
    expect(templates).to.deep.include([good.hostId, 'debian-12']).and.to.have.length(catalog.length)
    expect(view.findHost(bad.hostId)?.description).to.equal(undefined)
    expect(view.findHost(bad.hostId)?.warnings).not.to.deep.equal([])
    expect(view.findHost(good.hostId)?.warnings).to.deep.equal([])
    const refusals = logged.map((line) => JSON.parse(line) as Record<string, string>)
    const problems = refusals.flatMap(({ host, problem }) => (host === bad.hostId && problem ? [problem] : []))
    expect(problems).to.have.length(1)
    expect(problems[0]).to.contain('another host')
  })

  it('are shown as offline if they are silent for too long, and as online when they continue', async () => {
    await test.close()
    test = await startTestFleet({ agents: { silence_ms: 3000 } }, { log, redis })
    const { id } = await test.fleet.hosts.createHost({ name: 'still', address: '127.0.0.1:1' })
    const { token } = await test.fleet.hosts.createJoinToken(id)
    const identity = `${test.directory}/still`
    const agent = await startAgentProcess(['--join', token, '--identity', identity, '--guests', '5'])
    const isOnline = (): boolean => test.fleet.view.findHost(id)?.state === 'online'
    try {
      await test.fleet.hosts.updateHost(id, { address: agent.address })
      await waitFor(isOnline)
      agent.signal('SIGSTOP')
      await waitFor(() => !isOnline(), { what: 'its silence noticed' })
      expect([...test.fleet.view.guests()].map(({ online }) => online)).to.deep.equal(Array(5).fill(false))
      agent.signal('SIGCONT')
      await waitFor(isOnline, { what: 'back' })
      expect([...test.fleet.view.guests()].map(({ online }) => online)).to.deep.equal(Array(5).fill(true))
    } finally {
      agent.stop()
    }
  })

  it('cannot disturb other hosts or fill the gateway’s memory with a flood of changes', async () => {
    const good = await test.addHost('good', { guests: 1 })
    const uuid = good.agent.guests()[0]!.uuid
    const bad = await test.fleet.hosts.createHost({ name: 'bad', address: '127.0.0.1:1' })
    const { token } = await test.fleet.hosts.createJoinToken(bad.id)
    const flood = await startAgentProcess(['--join', token, '--identity', `${test.directory}/bad`, '--flood'])
    try {
      await test.fleet.hosts.updateHost(bad.id, { address: flood.address })
      await waitFor(() => test.fleet.view.findHost(bad.id)?.state === 'online')
      collectGarbage()
      const before = process.memoryUsage().heapUsed
      // During the flood, each of these calls to another host must be answered in time.
      for (const until = Date.now() + 4000; Date.now() < until;) {
        await test.fleet.agent(good.hostId).guests.getGuestUsage({ uuid })
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      collectGarbage()
      expect(process.memoryUsage().heapUsed - before).to.be.lessThan(150 * 1024 * 1024)
      expect(test.fleet.view.operations().length).to.be.lessThan(6000)
      expect(test.fleet.view.findHost(good.hostId)?.state).to.equal('online')
    } finally {
      flood.stop()
    }
  })
})
