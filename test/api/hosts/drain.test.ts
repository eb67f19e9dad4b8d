import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Drains } from '../../../gateway/drains/drains.js'
import { Store } from '../../../gateway/store/store.js'
import { BerthError } from '../../../shared/errors.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { silentLog } from '../../support/gateway/redis.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const hosts = ['host-a', 'host-b', 'host-c'] as const

interface DrainedRow {
  readonly name: string
  readonly state: string
  readonly to_host_id: string
}

describe('a drain of a host over HTTP', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ hosts })
    for (const id of hosts) await gateway.fleet.work(id)
  })
  after(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await gateway.close()
  })
  beforeEach(async () => {
    for (const agent of gateway.fleet.agents.values()) agent.observer = undefined
    await gateway.fleet.removeGuests()
    for (const id of hosts) await gateway.fleet.hosts.updateHost(id, { draining: false })
  })

  const stores: Store[] = []
  const call = (path = '', body?: object, headers = {}): Promise<Reply> =>
    gateway.request('POST', `/hosts/host-a/drain${path}`, { ...(body && { body }), headers })
  const undrain = (body: object = {}): Promise<Reply> => gateway.request('POST', '/hosts/host-a/undrain', { body })
  const find = async (): Promise<Body> => (await gateway.request('GET', '/hosts/host-a/drain')).body.data
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]
  const results = ({ containers }: Body): Record<string, string> =>
    Object.fromEntries((containers as DrainedRow[]).map(({ name, state }) => [name, state]))

  async function waitForEnd(state = 'done'): Promise<Body> {
    let drain: Body = {}
    await waitFor(async () => (drain = await find()).state === state && drain.ended_at !== '', {
      what: () => `a drain that is ${state}: ${JSON.stringify(drain)}`,
    })
    return drain
  }

  async function addGuests(count: number): Promise<Guest[]> {
    const guests: Guest[] = []
    for (let at = 0; at < count; at++) {
      const guest = await gateway.fleet.addGuest()
      gateway.fleet.agentOf('host-a').host.contents.set(guest.uuid, `disk of ${guest.name}`)
      guests.push(guest)
    }
    return guests
  }

  const hostOf = ({ uuid }: Guest): string | undefined => gateway.fleet.view.findGuest(uuid)?.hostId
  /** Makes each copy of the disks of these guests fail. */
  function failCopies(guests: readonly Guest[], count = Infinity): void {
    const failing = new Map(guests.map(({ uuid }) => [uuid, count]))
    const { domain } = gateway.fleet.agentOf('host-a')
    gateway.fleet.agentOf('host-a').observer = ({ step, phase, operationId }) => {
      const uuid = domain.engine.store.findJournaled(operationId)!.record.subject.id
      const left = failing.get(uuid) ?? 0
      if (step !== 'copy' || phase !== 'before-run' || left === 0) return
      failing.set(uuid, left - 1)
      throw new BerthError('unavailable', 'target_unreachable', 'a fault of the test')
    }
  }

  /** Makes each copy of a disk wait. @returns a function that ends the wait */
  function holdCopies(): () => void {
    const held = new AbortController()
    const released = once(held.signal, 'abort')
    gateway.fleet.agentOf('host-a').observer = async ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run') await released
    }
    return () => held.abort()
  }

  it('can be planned with a target for each container, and the plan changes nothing', async () => {
    const guests = await addGuests(4)
    const { status, body } = await call('', { dry_run: true })
    expect([status, body.data.state]).to.deep.equal([200, 'planned'])
    const targets = (body.data.containers as DrainedRow[]).map(({ to_host_id: to }) => to)
    expect(targets.filter((id) => id === 'host-b')).to.have.length(2)
    expect(targets.filter((id) => id === 'host-c')).to.have.length(2)
    expect(guests.map(hostOf)).to.deep.equal(guests.map(() => 'host-a'))
    expect((await gateway.request('GET', '/hosts/host-a')).body.data.draining).to.equal(false)
  })

  it('has a plan that shows why a container cannot move', async () => {
    await addGuests(1)
    await gateway.fleet.addGuest({ virtualization: 'kvm', name: 'machine' })
    const { body } = await call('', { dry_run: true })
    const machine = (body.data.containers as DrainedRow[]).find(({ name }) => name === 'machine')!
    expect(machine)
      .to.include({ state: 'failed' })
      .and.property('message')
      .match(/^the virtual machine cannot move while it runs: /)
  })

  it('moves stopped virtual machines, and shows why running virtual machines stay on the host', async () => {
    await gateway.fleet.runMachines(...hosts)
    await gateway.fleet.addGuest({ virtualization: 'kvm', name: 'running' })
    const { uuid } = await gateway.fleet.addGuest({ virtualization: 'kvm', name: 'stopped', status: 'stopped' })
    gateway.fleet.agentOf('host-a').host.contents.set(uuid, 'disk of stopped')
    await call()
    const ended = await waitForEnd()
    expect(results(ended)).to.deep.equal({ running: 'failed', stopped: 'done' })
    const { message } = (ended.containers as Body[]).find(({ name }) => name === 'running')!
    expect(message).to.match(/^the virtual machine cannot move while it runs: /)
    expect(gateway.fleet.view.findGuest(uuid)?.hostId).to.be.oneOf(['host-b', 'host-c'])
  })

  it('moves all containers to other hosts, and closes the host for new containers', async () => {
    const guests = await addGuests(5)
    const events = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey }, '?kinds=host')
    const { status, body } = await call('', { parallel: 3, bandwidth_mbps: 1000 })
    expect([status, body.message]).to.deep.equal([202, 'the drain of the host has started'])
    const ended = await waitForEnd()
    expect(Object.values(results(ended))).to.deep.equal(guests.map(() => 'done'))
    for (const guest of guests) expect(hostOf(guest)).to.be.oneOf(['host-b', 'host-c'])
    expect((await gateway.request('GET', '/hosts/host-a')).body.data).to.include({ draining: true, containers: 0 })
    const { data } = await events.type('host.drained')
    expect(data.data).to.include({
      id: 'host-a',
      mode: 'move',
      direction: 'away',
      state: 'done',
      done: 5,
      failed: 0,
      skipped: 0,
    })
    events.close()
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    expect(metrics).to.include('berth_drain_containers{host="host-a",state="done"} 5')
  })

  it('can return the moved containers to the host', async () => {
    const guests = await addGuests(3)
    await call()
    await waitForEnd()
    const { status, body } = await undrain({ bring_back: true })
    expect([status, body.data.direction]).to.deep.equal([202, 'back'])
    await waitFor(() => guests.every((guest) => hostOf(guest) === 'host-a'), { what: 'all containers at their host' })
    expect(await waitForEnd()).to.include({ direction: 'back' })
    expect((await gateway.request('GET', '/hosts/host-a')).body.data.draining).to.equal(false)
    expect(refusal(await undrain({ bring_back: true }))).to.deep.equal([409, 'invalid_state'])
  })

  it('leaves a container without a suitable target on the host, and moves all other containers', async () => {
    const guests = await addGuests(4)
    failCopies([guests[1]!])
    await call()
    const ended = await waitForEnd()
    expect(results(ended)).to.include({ [guests[1]!.name]: 'failed', [guests[3]!.name]: 'done' })
    expect(ended.containers[1].message).to.equal('a fault of the test')
    expect(hostOf(guests[1]!)).to.equal('host-a')
    expect(gateway.fleet.agentOf('host-a').host.driver.running.has(guests[1]!.uuid)).to.equal(true)
    gateway.fleet.agentOf('host-a').observer = undefined
    expect((await call('/resume')).status).to.equal(202)
    expect(Object.values(results(await waitForEnd()))).to.deep.equal(guests.map(() => 'done'))
  })

  it('moves a container again after the first move failed', async () => {
    const [guest] = await addGuests(1)
    failCopies([guest!], 1)
    await call()
    expect(Object.values(results(await waitForEnd()))).to.deep.equal(['done'])
  })

  it('can be paused, resumed and canceled', async () => {
    const guests = await addGuests(3)
    const release = holdCopies()
    await call('', { parallel: 1 })
    await waitFor(async () => Object.values(results(await find())).includes('active'), { what: 'the first move' })
    expect((await call('/pause')).status).to.equal(202)
    release()
    await waitFor(async () => Object.values(results(await find())).includes('done'), { what: 'the end of one move' })
    expect(Object.values(results(await find()))).to.deep.equal(['done', 'waiting', 'waiting'])
    expect(refusal(await call('/pause'))).to.deep.equal([409, 'invalid_state'])
    expect(refusal(await call())).to.deep.equal([409, 'drain_running'])
    expect((await call('/cancel')).status).to.equal(202)
    expect(Object.values(results(await waitForEnd('canceled')))).to.deep.equal(['done', 'skipped', 'skipped'])
    await call('/resume')
    await waitForEnd()
    for (const guest of guests) expect(hostOf(guest)).not.to.equal('host-a')
  })

  it('begins only once if the request is repeated', async () => {
    await addGuests(1)
    const headers = { 'idempotency-key': randomUUID() }
    const answers = [await call('', {}, headers), await call('', {}, headers)]
    expect(answers.map(({ status }) => status)).to.deep.equal([202, 202])
    await waitForEnd()
  })

  it('is canceled when the host is opened again', async () => {
    await addGuests(2)
    const release = holdCopies()
    await call('', { parallel: 1 })
    await waitFor(async () => Object.values(results(await find())).includes('active'), { what: 'the first move' })
    const { body } = await undrain()
    expect(body.data.state).to.equal('canceled')
    expect((await gateway.request('GET', '/hosts/host-a')).body.data.draining).to.equal(false)
    release()
    expect(Object.values(results(await waitForEnd('canceled')))).to.deep.equal(['done', 'skipped'])
  })

  it('can stop running containers, and starts them again when the host is opened', async () => {
    const guests = await addGuests(2)
    const stopped = await gateway.fleet.addGuest({ name: 'stopped', status: 'stopped' })
    const { running } = gateway.fleet.agentOf('host-a').host.driver
    const { body: planned } = await call('', { mode: 'stop', dry_run: true })
    expect(Object.values(results(planned.data))).to.have.members(['waiting', 'waiting', 'done'])
    await call('', { mode: 'stop' })
    expect(Object.values(results(await waitForEnd()))).to.deep.equal(['done', 'done', 'done'])
    expect([...guests, stopped].map(({ uuid }) => running.has(uuid))).to.deep.equal([false, false, false])
    await undrain({ bring_back: true })
    expect(results(await waitForEnd())).to.include({ stopped: 'skipped' })
    expect([...guests, stopped].map(({ uuid }) => running.has(uuid))).to.deep.equal([true, true, false])
    expect([...guests, stopped].map(hostOf)).to.deep.equal(['host-a', 'host-a', 'host-a'])
  })

  it('is refused if its deadline is in the past', async () => {
    for (const deadline of ['2020-01-01', 'soon'])
      expect(refusal(await call('', { deadline })), deadline).to.deep.equal([400, 'invalid_field'])
  })

  it('prevents, while it runs, a change of the setting that opens or closes the host', async () => {
    await addGuests(1)
    const release = holdCopies()
    await call()
    const change = (): Promise<Reply> => gateway.request('PATCH', '/hosts/host-a', { body: { draining: false } })
    expect(refusal(await change())).to.deep.equal([409, 'drain_running'])
    release()
    await waitForEnd()
    expect((await change()).status).to.equal(200)
  })

  it('is refused for an unknown host', async () => {
    expect(refusal(await gateway.request('POST', '/hosts/nothing/drain'))).to.deep.equal([404, 'not_found'])
    expect(refusal(await gateway.request('POST', '/hosts/nothing/undrain'))).to.deep.equal([404, 'not_found'])
  })

  it('continues at another gateway on the same store, and moves no container twice', async () => {
    const guests = await addGuests(6)
    await gateway.drains.close()
    const workers = [await startWorker(), await startWorker()]
    await workers[0]!.begin(gateway.fleet, {
      id: randomUUID(),
      hostId: 'host-a',
      mode: 'move',
      parallel: 2,
      bandwidthMbps: 0,
      deadlineMs: 0,
      startedBy: 'test',
    })
    workers[0]!.start(gateway.fleet)
    await waitFor(() => guests.some((guest) => hostOf(guest) !== 'host-a'), { what: 'the first moved container' })
    workers[1]!.start(gateway.fleet)
    await workers[0]!.close()
    await waitFor(() => workers[1]!.find('host-a')?.state === 'done', { what: 'the end' })
    const moves = gateway.fleet.view.operations().filter(({ operation }) => operation.action === 'migrate')
    for (const guest of guests) {
      expect(hostOf(guest)).not.to.equal('host-a')
      expect(moves.filter(({ operation }) => operation.subject?.id === guest.uuid)).to.have.length(1)
    }
    await workers[1]!.close()
  })

  /** Starts a second `Drains` on the same data, like that of another gateway. */
  async function startWorker(): Promise<Drains> {
    const store = new Store({ url: gateway.redis.url, prefix: 'btest:', log: silentLog })
    const worker = new Drains({
      store,
      log: silentLog,
      openTarget: () => Promise.reject(new Error('no target')),
      everyMs: 20,
      leaseMs: 400,
      retryMs: 100,
    })
    store.start()
    stores.push(store)
    await waitFor(() => store.ready(), { what: 'the store' })
    return worker
  }
})
