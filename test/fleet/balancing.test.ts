import { expect } from 'chai'
import { once } from 'node:events'
import { Balancing } from '../../gateway/balancing/balancing.js'
import { defaultSettings, type BalancingSettings } from '../../gateway/balancing/balancing-record.js'
import type { AuditLog } from '../../gateway/access/contract.js'
import type { Fleet } from '../../gateway/fleet/contract.js'
import type { GuestMoves } from '../../gateway/fleet/move-contract.js'
import { Store } from '../../gateway/store/store.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { conflict } from '../../shared/errors.js'
import { UnansweredError } from '../../shared/grpc-errors.js'
import { createTimeFormat } from '../../shared/time.js'
import { silentLog } from '../support/gateway/redis.js'
import { MoveLab } from '../support/memory/move-lab.js'
import { waitFor } from '../support/wait.js'

const minute = 60_000
const hour = 60 * minute

describe('automatic balancing of a fleet', function () {
  let lab: MoveLab
  let skippedMs = 0
  const workers: Balancing[] = []
  const stores: Store[] = []
  const audited: string[] = []

  before(async () => {
    lab = await MoveLab.start()
  })
  after(async () => {
    await Promise.all(stores.map((store) => store.close()))
    await lab?.close()
  })
  beforeEach(async () => {
    await lab.fleet.removeGuests()
    await lab.store.client.del(lab.store.key('reserved-rooms'))
    await (await openWorker()).settings.update(() => defaultSettings)
    audited.length = 0
  })
  afterEach(async () => {
    lab.reset()
    await Promise.all(workers.splice(0).map((worker) => worker.close()))
    skippedMs += 1000 * hour // ends all pauses
  })

  const audit: AuditLog = {
    begin: async ({ action, caller, address }) => ({ id: '', by: caller.user, action, address }),
    finish: async ({ action, by }, { success, containerUuid }) =>
      void audited.push([action, by, success, containerUuid].join(' ')),
  }

  /** Creates the automatic balancing of another gateway on the same store. It does not work until it is started. */
  async function openWorker(): Promise<Balancing> {
    const store = new Store({ url: lab.redisUrl, prefix: 'btest:', log: silentLog })
    stores.push(store)
    const worker = new Balancing({
      store,
      log: silentLog,
      audit,
      drains: { all: [] },
      fleetUpgrades: { current: null },
      time: createTimeFormat('UTC'),
      everyMs: 20,
      leaseMs: 400,
      now: () => Date.now() + skippedMs,
    })
    workers.push(worker)
    store.start()
    await waitFor(() => worker.settings.value !== undefined, { what: 'the settings' })
    return worker
  }

  const enable = (worker: Balancing, more: Partial<BalancingSettings> = {}) =>
    worker.settings.update((old) => ({ ...old, enabled: true, minGain: 5, intervalMinutes: 1, parallel: 2, ...more }))

  async function addGuests(count: number, fields: object = { portMappings: [] }): Promise<Guest[]> {
    const limits = { ...size, vcpuMilli: 800, ramMb: 12_000, diskGb: 10 }
    const guests: Guest[] = []
    for (let at = 0; at < count; at++) guests.push(await lab.addGuest({ limits, ...fields }))
    return guests
  }

  const hostOf = ({ uuid }: Guest): string | undefined => lab.fleet.view.findGuest(uuid)?.hostId
  const movesOf = ({ uuid }: Guest) =>
    lab.fleet
      .operations()
      .filter(({ operation }) => operation.action === 'migrate' && operation.subject?.id === uuid)
      .map(({ operation }) => operation)
  const countMoved = (guests: readonly Guest[]): number => guests.filter((guest) => hostOf(guest) === 'host-b').length
  const waitOf = (worker: Balancing): string | undefined => worker.statusOf(lab.fleet).wait?.code

  /** Lets intervals end until the condition is true. */
  async function waitForChecks(worker: Balancing, condition: () => boolean): Promise<void> {
    const check = (): boolean => {
      if (['interval', 'no_move'].includes(waitOf(worker) ?? '')) skippedMs += minute
      return condition()
    }
    await waitFor(check, { what: () => JSON.stringify(worker.statusOf(lab.fleet)) })
  }

  /** Waits until half of the guests have moved, no move is active, and a further check begins none. */
  async function waitForBalance(worker: Balancing, guests: readonly Guest[]): Promise<void> {
    const stateOf = () => worker.statusOf(lab.fleet).state
    const isIdle = (): boolean => stateOf().moves.every(({ state }) => state !== 'active')
    await waitForChecks(worker, () => countMoved(guests) === guests.length / 2 && isIdle())
    const { checkedAtMs } = stateOf()
    await waitForChecks(worker, () => stateOf().checkedAtMs > checkedAtMs + minute && isIdle())
    expect(countMoved(guests)).to.equal(guests.length / 2)
  }

  /** The fleet of the lab with other methods for moves. */
  function fleetWith(changed: Partial<GuestMoves>): Fleet {
    const { view, relocation } = lab.fleet
    const moves = {
      suggest: relocation.moves.suggest.bind(relocation.moves),
      check: relocation.moves.check.bind(relocation.moves),
      begin: relocation.moves.begin.bind(relocation.moves),
      isStored: relocation.moves.isStored.bind(relocation.moves),
      ...changed,
    }
    const expectedConnections = () => Promise.resolve()
    return { view, isComplete: true, expectedConnections, relocation: { moves } } as unknown as Fleet
  }

  /** Fails before the move begins at the agent, so that the gateway only records the move. */
  const failingBegin = () => Promise.reject(new UnansweredError(true, undefined))

  it('moves guests until the hosts have the same load, and shows the moves as those of the system', async () => {
    const guests = await addGuests(6)
    const worker = await openWorker()
    worker.start(lab.fleet)
    await enable(worker)
    await waitForBalance(worker, guests)
    const moved = guests.filter((guest) => hostOf(guest) === 'host-b')
    expect(moved.flatMap(movesOf).map(({ requestedBy }) => requestedBy)).to.deep.equal(['system', 'system', 'system'])
    expect(guests.filter((guest) => hostOf(guest) === 'host-a').flatMap(movesOf)).to.deep.equal([])
    expect(audited).to.have.members(moved.map(({ uuid }) => `container.migrate system true ${uuid}`))
    expect(worker.statusOf(lab.fleet).state.moves.map(({ state }) => state)).to.deep.equal(['done', 'done', 'done'])
    expect(worker.results).to.deep.equal({ done: 3, failed: 0 })
  })

  it('leaves guests with mapped ports on their host, unless the settings allow other addresses', async () => {
    const guests = await addGuests(2, {})
    const worker = await openWorker()
    worker.start(lab.fleet)
    await enable(worker)
    const refused = () => worker.statusOf(lab.fleet).state.refused.map(({ uuid, code }) => `${uuid} ${code}`)
    await waitForChecks(worker, () => refused().length === 2)
    expect(refused()).to.have.members(guests.map(({ uuid }) => `${uuid} changes_addresses`))
    await enable(worker, { changesAddresses: true })
    await waitForBalance(worker, guests)
  })

  it('shows a failed move, and tries it again only after the pause', async () => {
    const [guest] = await addGuests(2)
    lab.source.observer = ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run') throw new Error('a fault of the test')
    }
    const worker = await openWorker()
    worker.start(lab.fleet)
    await enable(worker, { parallel: 1 })
    const stateOf = () => worker.statusOf(lab.fleet).state
    await waitForChecks(worker, () => stateOf().refused.length === 2)
    expect(stateOf().moves.filter(({ state }) => state === 'failed')).to.have.length(2)
    expect(stateOf().refused.map(({ code }) => code)).to.deep.equal(['recently_moved', 'recently_moved'])
    expect(movesOf(guest!).map(({ status }) => status)).to.deep.equal(['failed'])
    lab.source.observer = undefined
    skippedMs += 25 * hour
    await waitForChecks(worker, () => stateOf().moves[0]!.state === 'done')
  })

  it('begins no further move after it was disabled, and continues when it is enabled again', async () => {
    const held = new AbortController()
    const released = once(held.signal, 'abort')
    lab.source.observer = async ({ step, phase }) => {
      if (step === 'copy' && phase === 'before-run') await released
    }
    const guests = await addGuests(6)
    const worker = await openWorker()
    worker.start(lab.fleet)
    await enable(worker, { parallel: 1 })
    await waitFor(() => waitOf(worker) === 'moving', { what: 'the first move' })
    await worker.settings.update((old) => ({ ...old, enabled: false }))
    held.abort()
    const states = () => worker.statusOf(lab.fleet).state.moves.filter(({ uuid }) => isOf(guests, uuid))
    await waitFor(() => states()[0]!.state === 'done', { what: 'the end of the first move' })
    skippedMs += hour
    const second = await openWorker()
    second.start(lab.fleet)
    expect([waitOf(worker), waitOf(second), states().length]).to.deep.equal(['disabled', 'disabled', 1])
    await enable(second)
    await waitForBalance(second, guests)
    expect(guests.flatMap(movesOf)).to.have.length(3)
  })

  it('continues at another gateway after a failure, and moves no guest twice', async () => {
    const guests = await addGuests(6)
    const first = await openWorker()
    first.start(fleetWith({ begin: failingBegin }))
    await enable(first)
    await waitFor(() => waitOf(first) === 'moving', { what: 'recorded moves' })
    const recorded = first.statusOf(lab.fleet).state.moves.filter(({ state }) => state === 'active')
    const second = await openWorker()
    second.start(lab.fleet)
    await first.close()
    await waitForBalance(second, guests)
    expect(guests.flatMap(movesOf)).to.have.length(3)
    const ids = guests.flatMap(movesOf).map(({ id }) => id)
    expect(ids).to.include.members(recorded.map(({ taskId }) => taskId))
  })

  for (const [name, change, skipMs, message] of [
    ['automatic balancing was disabled', () => ({ enabled: false }), 0, 'disabled'],
    ['the daily window has ended', () => laterWindow(), 6 * minute, 'could not begin in time'],
  ] as const)
    it(`does not begin a recorded move at another gateway if ${name}`, async () => {
      const guests = await addGuests(2)
      const first = await openWorker()
      first.start(fleetWith({ begin: failingBegin }))
      await enable(first, { parallel: 1 })
      await waitFor(() => waitOf(first) === 'moving', { what: 'a recorded move' })
      await first.close()
      const second = await openWorker()
      await second.settings.update((old) => ({ ...old, ...change() }))
      second.start(lab.fleet)
      await waitFor(() => second.lease.held, { what: 'the lease' })
      skippedMs += skipMs
      const stateOf = () => second.statusOf(lab.fleet).state.moves.find(({ uuid }) => isOf(guests, uuid))!
      await waitFor(() => stateOf().state !== 'active', { what: 'the end of the recorded move' })
      expect(stateOf().state).to.equal('failed')
      expect(stateOf().message).to.include(message)
      expect(guests.flatMap(movesOf)).to.deep.equal([])
    })

  /** A window that begins in 2 hours and ends in 3 hours. */
  function laterWindow(): Partial<BalancingSettings> {
    const at = (hours: number): string => new Date(Date.now() + skippedMs + hours * hour).toISOString().slice(11, 16)
    return { windowStart: at(2), windowEnd: at(3) }
  }

  it('reaches guests behind 20 guests whose dry run fails', async () => {
    const guests = await addGuests(22)
    const failing = guests.slice(0, 21)
    const check: GuestMoves['check'] = (request) =>
      isOf(failing, request.guest.guest.uuid)
        ? Promise.reject(conflict('offline_required', 'the guest cannot move while it runs'))
        : lab.fleet.relocation.moves.check(request)
    const worker = await openWorker()
    worker.start(fleetWith({ check }))
    await enable(worker)
    await waitForChecks(worker, () => countMoved(guests) === 1)
    expect(hostOf(guests.at(-1)!)).to.equal('host-b')
    const refused = worker.statusOf(lab.fleet).state.refused.map(({ uuid, code }) => `${uuid} ${code}`)
    expect(refused).to.have.members(failing.slice(0, 20).map(({ uuid }) => `${uuid} offline_required`))
  })
})

const size = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }

function isOf(guests: readonly Guest[], uuid: string): boolean {
  return guests.some((guest) => guest.uuid === uuid)
}
