import { expect } from 'chai'
import { newDrainedGuest, type Drain, type DrainedGuest } from './drain.js'
import { planCommand, planReturn, refuseSecondDrain } from './plan-command.js'
import {
  failMove,
  forgetOldest,
  maxAttempts,
  mostRetained,
  planDrain,
  type DrainedGuestFacts,
  type DrainFacts,
} from './plan-drain.js'

const guest = (name: string, fields: Partial<DrainedGuest> = {}): DrainedGuest => ({
  ...newDrainedGuest({ uuid: name, name }),
  ...fields,
})
const moving = (name: string, fields: Partial<DrainedGuest> = {}): DrainedGuest =>
  guest(name, { state: 'moving', moveId: `move-${name}`, attempts: 1, ...fields })
const drain = (guests: readonly DrainedGuest[], fields: Partial<Drain> = {}): Drain => ({
  id: 'd',
  hostId: 'host',
  state: 'running',
  direction: 'away',
  parallel: 2,
  bandwidthMbps: 0,
  guests,
  startedBy: 'test',
  startedAtMs: 1,
  endedAtMs: 0,
  ...fields,
})
const at = (hostId: string | undefined, fields: Partial<DrainedGuestFacts> = {}): DrainedGuestFacts => ({
  hostId,
  isSettled: true,
  move: undefined,
  ...fields,
})
const task = (status: string, error = '') => ({ move: { status, error } })

type Known = Readonly<Record<string, DrainedGuestFacts>>
const plan = (given: Drain, known: Known, facts: Partial<DrainFacts> = {}): Drain =>
  planDrain(given, {
    factsOf: ({ name }) => known[name] ?? at('host'),
    isHostOnline: true,
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
      'a moving, b moving, c waiting',
    ],
    [
      'begins with the next container when another one has arrived',
      [moving('a'), moving('b'), guest('c')],
      { a: at('other', task('done')) },
      'a moved, b moving, c moving',
    ],
    [
      'waits for the end of the task, also if the container is on the other host already',
      [moving('a')],
      { a: at('other', task('running')) },
      'a moving',
    ],
    [
      'counts a container as moved if its target has not reported it yet',
      [moving('a')],
      { a: at(undefined, task('done')) },
      'a moved',
    ],
    ['tries a failed move again', [moving('a')], { a: at('host', task('failed', 'no space')) }, 'a waiting'],
    [
      'gives up after the last attempt',
      [moving('a', { attempts: maxAttempts })],
      { a: at('host', task('failed', 'no space')) },
      'a failed',
    ],
    [
      'does not repeat a move that an operator has canceled',
      [moving('a')],
      { a: at('host', task('canceled')) },
      'a failed',
    ],
    [
      'does not move a container again that an operator has moved back',
      [moving('a')],
      { a: at('host', task('done')) },
      'a failed',
    ],
    ['skips a deleted container', [guest('a'), guest('b')], { a: at(undefined) }, 'a skipped, b moving'],
    ['counts a container that an operator has moved', [guest('a')], { a: at('other') }, 'a moved'],
    [
      'waits for a container that is being started',
      [guest('a'), guest('b')],
      { a: at('host', { isSettled: false }) },
      'a waiting, b moving',
    ],
    ['waits before the next attempt', [guest('a', { retryAtMs: 101 })], {}, 'a waiting'],
  ] satisfies [string, DrainedGuest[], Known, string][])
    it(name, () => {
      expect(states(plan(drain(given), known))).to.equal(after)
    })

  it('waits for containers of an offline host', () => {
    expect(states(plan(drain([guest('a')]), { a: at(undefined) }, { isHostOnline: false }))).to.equal('a waiting')
  })

  it('adds containers whose creation had begun before the drain', () => {
    const present = [
      { uuid: 'a', name: 'a' },
      { uuid: 'b', name: 'b' },
    ]
    expect(states(plan(drain([guest('a', { state: 'moved' })]), {}, { present }))).to.equal('a moved, b moving')
  })

  it('ends when no container is left, and keeps the time of its end', () => {
    const ended = plan(drain([moving('a'), guest('b', { state: 'failed' })]), { a: at('other', task('done')) })
    expect([ended.state, ended.endedAtMs]).to.deep.equal(['done', 100])
    expect(plan(ended, {}, { nowMs: 200 })).to.equal(ended)
  })

  it('starts no further moves while the drain is paused or canceled', () => {
    for (const state of ['paused', 'canceled'] as const)
      expect(states(plan(drain([moving('a'), guest('b')], { state }), {}))).to.equal('a moving, b waiting')
  })

  it('stores when a move that could not begin is tried again, and its reason', () => {
    const failed = failMove(drain([moving('a')]), 'move-a', { message: 'busy', retryAtMs: 150, isFinal: false })
    expect(failed.guests[0]).to.include({ state: 'waiting', message: 'busy', retryAtMs: 150 })
    const final = failMove(drain([moving('a')]), 'move-a', { message: 'a VM', retryAtMs: 150, isFinal: true })
    expect(final.guests[0]).to.include({ state: 'failed', message: 'a VM' })
  })

  it('returns containers to the host in the opposite direction', () => {
    const back = drain([moving('a')], { direction: 'back' })
    expect(states(plan(back, { a: at('other', task('done')) }))).to.equal('a failed')
    expect(states(plan(back, { a: at('host', task('done')) }))).to.equal('a moved')
  })
})

describe('the stored drains', () => {
  const ended = (hostId: string, endedAtMs: number, count: number): Drain =>
    drain(
      Array.from({ length: count }, (_, at) => guest(`${hostId}-${at}`, { state: 'moved' })),
      {
        hostId,
        state: 'done',
        endedAtMs,
      },
    )
  const hostsOf = (...drains: Drain[]): string[] =>
    Object.keys(forgetOldest(Object.fromEntries(drains.map((one) => [one.hostId, one]))))

  it('are retained, the last ones first, up to a number of containers', () => {
    const half = mostRetained / 2
    expect(hostsOf(ended('a', 1, half), ended('b', 2, half))).to.have.members(['a', 'b'])
    expect(hostsOf(ended('a', 1, half), ended('b', 2, half + 1))).to.deep.equal(['b'])
    expect(hostsOf(ended('a', 1, 1), drain([moving('b')], { hostId: 'b' }))).to.have.members(['a', 'b'])
  })
})

describe('the commands for a drain', () => {
  const guests = [guest('a', { state: 'moved' }), guest('b', { state: 'failed', message: 'why' }), guest('c')]
  for (const [command, state, after] of [
    ['pause', 'running', 'a moved, b failed, c waiting'],
    ['resume', 'paused', 'a moved, b waiting, c waiting'],
    ['resume', 'done', 'a moved, b waiting, c waiting'],
    ['cancel', 'running', 'a moved, b failed, c skipped'],
  ] as const)
    it(`accept "${command}" for a drain that is ${state}`, () => {
      expect(states(planCommand(drain(guests, { state }), command))).to.equal(after)
    })

  it('let containers begin again that were skipped by a cancellation', () => {
    expect(states(planCommand(planCommand(drain(guests), 'cancel'), 'resume'))).to.equal(
      'a moved, b waiting, c waiting',
    )
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

  it('return only the containers that the drain has moved', () => {
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
    expect(() => planReturn(drain([guests[0]!, moving('d')])))
      .to.throw()
      .with.property('code', 'drain_running')
  })

  it('refuse a second drain until the first one has ended', () => {
    for (const given of [
      drain(guests),
      drain(guests, { state: 'paused' }),
      drain([moving('a')], { state: 'canceled' }),
    ])
      expect(() => refuseSecondDrain(given))
        .to.throw()
        .with.property('code', 'drain_running')
    refuseSecondDrain(undefined)
    refuseSecondDrain(drain(guests, { state: 'done' }))
  })
})
