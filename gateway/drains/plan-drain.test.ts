import { expect } from 'chai'
import { newDrainedGuest, type Drain, type DrainedGuest } from './drain.js'
import { planCommand, planReturn, refuseSecondDrain } from './plan-command.js'
import {
  failTask,
  forgetOldest,
  maxAttempts,
  mostRetained,
  planDrain,
  recordTarget,
  type DrainedGuestFacts,
  type DrainFacts,
} from './plan-drain.js'

const guest = (name: string, fields: Partial<DrainedGuest> = {}): DrainedGuest => ({
  ...newDrainedGuest({ uuid: name, name }),
  ...fields,
})
const active = (name: string, fields: Partial<DrainedGuest> = {}): DrainedGuest =>
  guest(name, { state: 'active', taskId: `task-${name}`, attempts: 1, ...fields })
const drain = (guests: readonly DrainedGuest[], fields: Partial<Drain> = {}): Drain => ({
  id: 'd',
  hostId: 'host',
  state: 'running',
  mode: 'move',
  direction: 'away',
  parallel: 2,
  bandwidthMbps: 0,
  deadlineMs: 0,
  guests,
  startedBy: 'test',
  startedAtMs: 1,
  endedAtMs: 0,
  ...fields,
})
const at = (hostId: string | undefined, fields: Partial<DrainedGuestFacts> = {}): DrainedGuestFacts => ({
  hostId,
  isSettled: true,
  isStopped: false,
  task: undefined,
  ...fields,
})
const task = (status: string, error = '') => ({ task: { status, error } })

type FactsByGuest = Readonly<Record<string, DrainedGuestFacts>>
const plan = (given: Drain, known: FactsByGuest, facts: Partial<DrainFacts> = {}): Drain =>
  planDrain(given, {
    factsOf: ({ name }) => known[name] ?? at('host'),
    isHostOnline: true,
    areAllOnline: true,
    isExpecting: false,
    present: [],
    newId: () => 'new',
    nowMs: 100,
    retryMs: 50,
    ...facts,
  })
const states = ({ guests }: Drain): string => guests.map(({ name, state }) => `${name} ${state}`).join(', ')

describe('the plan of a drain', () => {
  for (const [name, given, known, after] of [
    [
      'moves as many containers at the same time as allowed',
      [guest('a'), guest('b'), guest('c')],
      {},
      'a active, b active, c waiting',
    ],
    [
      'begins the next move when a container has arrived on its target host',
      [active('a'), active('b'), guest('c')],
      { a: at('other', task('done')) },
      'a done, b active, c active',
    ],
    [
      'waits for the end of the task of a move even if the container is already on its target host',
      [active('a')],
      { a: at('other', task('running')) },
      'a active',
    ],
    [
      'counts a container as moved after its task is done, even if the target host has not reported the container yet',
      [active('a')],
      { a: at(undefined, task('done')) },
      'a done',
    ],
    ['tries a failed move again', [active('a')], { a: at('host', task('failed', 'no space')) }, 'a waiting'],
    [
      'gives up a container after the last failed attempt to move it',
      [active('a', { attempts: maxAttempts })],
      { a: at('host', task('failed', 'no space')) },
      'a failed',
    ],
    [
      'gives up a container whose move an operator has canceled',
      [active('a')],
      { a: at('host', task('canceled')) },
      'a failed',
    ],
    [
      'gives up a container that an operator has moved back',
      [active('a')],
      { a: at('host', task('done')) },
      'a failed',
    ],
    ['skips a deleted container', [guest('a'), guest('b')], { a: at(undefined) }, 'a skipped, b active'],
    [
      'counts a container as moved if an operator has moved it to another host',
      [guest('a')],
      { a: at('other') },
      'a done',
    ],
    [
      'waits for a container that is being started',
      [guest('a'), guest('b')],
      { a: at('host', { isSettled: false }) },
      'a waiting, b active',
    ],
    ['waits until the time of the next attempt to move a container', [guest('a', { retryAtMs: 101 })], {}, 'a waiting'],
  ] satisfies [string, DrainedGuest[], FactsByGuest, string][])
    it(name, () => {
      expect(states(plan(drain(given), known))).to.equal(after)
    })

  it('waits if no host reports a container and one of the hosts is offline', () => {
    expect(states(plan(drain([guest('a')]), { a: at(undefined) }, { areAllOnline: false }))).to.equal('a waiting')
  })

  it('adds containers that are new on the host, and again moves containers that have returned to the host', () => {
    const present = ['b', 'c'].map((name) => ({ uuid: name, name }))
    const given = drain([guest('a', { state: 'done' }), guest('b', { state: 'done', attempts: 3 })])
    const planned = plan(given, {}, { present })
    expect(states(planned)).to.equal('a done, b active, c active')
    expect(planned.guests[1]!.attempts).to.equal(1)
  })

  it('does not end while containers are being created on the host or are moving to this host', () => {
    const given = drain([guest('a', { state: 'done' })])
    expect(plan(given, {}, { isExpecting: true })).to.equal(given)
    expect(plan(given, {}).endedAtMs).to.equal(100)
  })

  it('ends a canceled drain even if the last move fails', () => {
    const ended = plan(drain([active('a')], { state: 'canceled' }), { a: at('host', task('failed', 'no space')) })
    expect([states(ended), ended.state, ended.endedAtMs]).to.deep.equal(['a failed', 'canceled', 100])
  })

  it('prefers hosts to which no move of the container has failed', () => {
    const given = drain([active('a', { toHostId: 'x', refusedBy: ['w'] })])
    const { guests } = plan(given, { a: at('host', task('failed')) })
    expect(guests[0]).to.deep.include({ state: 'waiting', refusedBy: ['w', 'x'], toHostId: '' })
  })

  it('begins no new task of a container before its previous task has ended', () => {
    const given = drain([guest('a', { taskId: 'task-a' })])
    expect(states(plan(given, { a: at('host', task('running')) }))).to.equal('a waiting')
  })

  it('marks waiting containers as failed at the deadline, but lets running moves end', () => {
    const given = drain([active('a'), guest('b')], { deadlineMs: 100 })
    expect(states(plan(given, {}, { nowMs: 99 }))).to.equal('a active, b active')
    const late = plan(given, {})
    expect(states(late)).to.equal('a active, b failed')
    expect(late.guests[1]!.message).to.include('deadline')
    expect(states(planCommand(drain(late.guests, { state: 'done', deadlineMs: 1 }), 'resume'))).to.equal(
      'a active, b waiting',
    )
  })

  it('ends when no container is left to move, and keeps the time of its end', () => {
    const ended = plan(drain([active('a'), guest('b', { state: 'failed' })]), { a: at('other', task('done')) })
    expect([ended.state, ended.endedAtMs]).to.deep.equal(['done', 100])
    expect(plan(ended, {}, { nowMs: 200 })).to.equal(ended)
  })

  it('starts no further moves while the drain is paused or canceled', () => {
    for (const state of ['paused', 'canceled'] as const)
      expect(states(plan(drain([active('a'), guest('b')], { state }), {}))).to.equal('a active, b waiting')
  })

  it('records why a move could not begin, and the time of the next attempt', () => {
    const failed = failTask(drain([active('a')]), 'task-a', { message: 'busy', retryAtMs: 150 })
    expect(failed.guests[0]).to.include({ state: 'waiting', message: 'busy', retryAtMs: 150 })
    const final = failTask(drain([active('a')]), 'task-a', { message: 'a VM', retryAtMs: 150, kind: 'final' })
    expect(final.guests[0]).to.include({ state: 'failed', message: 'a VM' })
  })

  it('does not count an attempt that failed only because the container was busy', () => {
    const failed = failTask(drain([active('a', { attempts: maxAttempts })]), 'task-a', {
      message: 'moving already',
      retryAtMs: 150,
      kind: 'passing',
    })
    expect(failed.guests[0]).to.include({ state: 'waiting', attempts: maxAttempts - 1 })
  })

  describe('when it returns the containers', () => {
    const back = (...guests: DrainedGuest[]): Drain => drain(guests, { direction: 'back' })

    it('counts a container as done only if it has returned to the host', () => {
      expect(states(plan(back(active('a')), { a: at('other', task('done')) }))).to.equal('a failed')
      expect(states(plan(back(active('a')), { a: at('host', task('done')) }))).to.equal('a done')
    })

    it('waits while the host is offline', () => {
      expect(states(plan(back(guest('a')), { a: at('other') }, { isHostOnline: false }))).to.equal('a waiting')
    })

    it('skips deleted containers after all hosts have come online', () => {
      const known = { a: at(undefined), b: at(undefined) }
      expect(states(plan(back(guest('a'), active('b')), known))).to.equal('a skipped, b skipped')
      expect(states(plan(back(guest('a')), known, { areAllOnline: false }))).to.equal('a waiting')
    })

    it('skips containers that an operator has moved to a third host', () => {
      expect(states(plan(back(guest('a', { toHostId: 'other' })), { a: at('third') }))).to.equal('a skipped')
      expect(states(plan(back(guest('a', { toHostId: 'other' })), { a: at('other') }))).to.equal('a active')
    })
  })

  describe('when it restores the containers of a failed host', () => {
    const evacuation = (...guests: DrainedGuest[]): Drain => drain(guests, { mode: 'evacuate' })

    it('begins the restore of a container that no host reports', () => {
      expect(states(plan(evacuation(guest('a')), { a: at(undefined) }))).to.equal('a active')
    })

    it('follows the task of a restore that had begun earlier', () => {
      const given = recordTarget(evacuation(active('a')), 'task-a', { toHostId: 'b', operationId: 'earlier' })
      expect(given.guests[0]).to.include({ taskId: 'earlier', toHostId: 'b' })
      expect(states(plan(given, { a: at('b', task('done')) }))).to.equal('a done')
    })
  })

  describe('when it stops containers instead of moving them', () => {
    const stop = (guests: readonly DrainedGuest[], fields: Partial<Drain> = {}): Drain =>
      drain(guests, { mode: 'stop', ...fields })
    const stopped = at('host', { isStopped: true })

    it('counts a container as done if it is stopped, or if its stop task has succeeded', () => {
      const known = { a: stopped, b: { ...stopped, ...task('done') }, c: at('host', task('done')) }
      const planned = plan(stop([guest('a'), active('b'), active('c')]), known)
      expect(states(planned)).to.equal('a done, b done, c done')
    })

    it('skips a container that an operator has moved to another host', () => {
      expect(states(plan(stop([guest('a')]), { a: at('other') }))).to.equal('a skipped')
    })

    it('stops nothing while the host is offline', () => {
      expect(states(plan(stop([guest('a')]), {}, { isHostOnline: false }))).to.equal('a waiting')
    })

    it('starts only containers that it has stopped', () => {
      const done = stop([guest('a', { state: 'done' }), guest('b', { state: 'done', taskId: 'task-b' })])
      const back = planReturn(done)
      expect(states(plan(back, { a: stopped, b: { ...stopped, ...task('done') } }))).to.equal('a skipped, b active')
      expect(states(plan(back, { b: at('host') }))).to.equal('a skipped, b done')
    })
  })
})

describe('the stored drains of a gateway', () => {
  const ended = (hostId: string, endedAtMs: number, count: number): Drain =>
    drain(
      Array.from({ length: count }, (_, at) => guest(`${hostId}-${at}`, { state: 'done' })),
      {
        hostId,
        state: 'done',
        endedAtMs,
      },
    )
  const hostsOf = (...drains: Drain[]): string[] =>
    Object.keys(forgetOldest(Object.fromEntries(drains.map((one) => [one.hostId, one]))))

  it('are deleted, oldest first, if they contain too many containers in total', () => {
    const half = mostRetained / 2
    expect(hostsOf(ended('a', 1, half), ended('b', 2, half))).to.have.members(['a', 'b'])
    expect(hostsOf(ended('a', 1, half), ended('b', 2, half + 1))).to.deep.equal(['b'])
    const canceled = drain([guest('b')], { hostId: 'b', state: 'canceled' })
    expect(hostsOf(ended('a', 1, mostRetained), canceled)).to.have.members(['a', 'b'])
  })
})

describe('the commands for a drain', () => {
  const guests = [
    guest('a', { state: 'done', taskId: 'task-a' }),
    guest('b', { state: 'failed', message: 'why' }),
    guest('c'),
  ]
  for (const [command, state, after] of [
    ['pause', 'running', 'a done, b failed, c waiting'],
    ['resume', 'paused', 'a done, b waiting, c waiting'],
    ['resume', 'done', 'a done, b waiting, c waiting'],
    ['cancel', 'running', 'a done, b failed, c skipped'],
  ] as const)
    it(`accept "${command}" for a drain that is ${state}`, () => {
      expect(states(planCommand(drain(guests, { state }), command))).to.equal(after)
    })

  it('resume containers that were skipped when the drain was canceled', () => {
    expect(states(planCommand(planCommand(drain(guests), 'cancel'), 'resume'))).to.equal('a done, b waiting, c waiting')
  })

  for (const [command, name, given] of [
    ['pause', 'that is paused', drain(guests, { state: 'paused' })],
    ['resume', 'that has ended without a failure', drain([guests[0]!], { state: 'done' })],
    ['cancel', 'that has ended', drain(guests, { state: 'done' })],
    ['pause', 'that does not exist', undefined],
  ] as const)
    it(`refuse "${command}" for a drain ${name}`, () => {
      expect(() => planCommand(given, command))
        .to.throw()
        .with.property('code', 'invalid_state')
    })

  it('return only containers that the drain has moved', () => {
    const back = planReturn(drain([guests[0]!, guests[1]!], { state: 'done', endedAtMs: 5 }))
    expect([states(back), back.direction, back.state, back.endedAtMs]).to.deep.equal([
      'a waiting, b skipped',
      'back',
      'running',
      0,
    ])
    const canceled = planReturn(planCommand(drain([guests[0]!, guests[2]!]), 'cancel'))
    expect(states(planCommand(planCommand(canceled, 'pause'), 'resume'))).to.equal('a waiting, c skipped')
    expect(() => planReturn(back))
      .to.throw()
      .with.property('code', 'invalid_state')
    expect(() => planReturn(drain([guests[0]!, active('d')])))
      .to.throw()
      .with.property('code', 'drain_running')
  })

  it('refuse a second drain before the first drain has ended', () => {
    for (const given of [
      drain(guests),
      drain(guests, { state: 'paused' }),
      drain([active('a')], { state: 'canceled' }),
    ])
      expect(() => refuseSecondDrain(given))
        .to.throw()
        .with.property('code', 'drain_running')
    refuseSecondDrain(drain([active('a')]), 'evacuate')
    expect(() => refuseSecondDrain(drain(guests, { mode: 'evacuate' }), 'evacuate'))
      .to.throw()
      .with.property('code', 'drain_running')
    refuseSecondDrain(undefined)
    refuseSecondDrain(drain(guests, { state: 'done' }))
  })
})
