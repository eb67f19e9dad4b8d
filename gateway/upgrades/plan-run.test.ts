import { expect } from 'chai'
import type { HostUpgrade, UpgradeStep } from '../join/host-upgrade.js'
import type { FleetRun, RunHost, RunHostState } from './fleet-run.js'
import { planCommand, refuseSecondRun, type RunCommand } from './plan-command.js'
import { planRun, refuseHost, type RunHostFacts } from './plan-run.js'

const host = (hostId: string, state: RunHostState = 'waiting', fields: Partial<RunHost> = {}): RunHost => {
  const attempts = state === 'waiting' || state === 'skipped' ? 0 : 1
  const upgradeId = attempts === 0 ? '' : `r-${hostId}-1`
  return { hostId, name: hostId, state, from: '1', message: '', action: 'upgrade', upgradeId, attempts, ...fields }
}
const run = (hosts: readonly RunHost[], fields: Partial<FleetRun> = {}): FleetRun => ({
  id: 'r',
  state: 'running',
  action: 'upgrade',
  version: '2',
  parallel: 2,
  canaryHostId: 'a',
  hosts,
  startedBy: 'test',
  startedAtMs: 1,
  endedAtMs: 0,
  ...fields,
})
const facts = (fields: Partial<RunHostFacts> = {}): RunHostFacts => ({
  online: true,
  version: '1',
  upgradable: true,
  previousVersion: '0',
  upgrade: undefined,
  ...fields,
})
const reported = (id: string, step: UpgradeStep, message = ''): RunHostFacts =>
  facts({
    upgrade: { id, from: '1', to: '2', rollback: false, step, message, startedAtMs: 0, atMs: 0 } satisfies HostUpgrade,
  })

type FactsByHost = Readonly<Record<string, RunHostFacts | undefined>>
const plan = (given: FleetRun, known: FactsByHost = {}, version = '2'): FleetRun =>
  planRun(given, { factsOf: (id) => (id in known ? known[id] : facts()), version, nowMs: 9 })
const states = ({ hosts }: FleetRun): string => hosts.map(({ hostId, state }) => `${hostId} ${state}`).join(', ')

describe('the upgrade of the fleet', () => {
  for (const [name, given, known, after, state] of [
    [
      'begins with an upgrade of the canary host only',
      run([host('b'), host('a')]),
      {},
      'b waiting, a upgrading',
      'running',
    ],
    [
      'upgrades no other host before the upgrade of the canary host has ended',
      run([host('a', 'upgrading'), host('b')]),
      { a: reported('r-a-1', 'waiting') },
      'a upgrading, b waiting',
      'running',
    ],
    [
      'continues after the canary host with as many hosts at a time as requested',
      run([host('a', 'upgrading'), host('b'), host('c'), host('d')]),
      { a: reported('r-a-1', 'done') },
      'a done, b upgrading, c upgrading, d waiting',
      'running',
    ],
    [
      'upgrades the next host after the end of another upgrade',
      run([host('a', 'done'), host('b', 'upgrading'), host('c', 'upgrading'), host('d')]),
      { b: reported('r-b-1', 'done'), c: reported('r-c-1', 'installing') },
      'a done, b done, c upgrading, d upgrading',
      'running',
    ],
    [
      'stops when a host fails, and lets the running upgrades of other hosts end',
      run([host('a', 'done'), host('b', 'upgrading'), host('c', 'upgrading'), host('d')]),
      { b: reported('r-b-1', 'failed', 'why'), c: reported('r-c-1', 'installing') },
      'a done, b failed, c upgrading, d waiting',
      'stopped',
    ],
    [
      'records the results of hosts that were still upgrading when the upgrade of the fleet stopped',
      run([host('a', 'done'), host('b', 'failed'), host('c', 'upgrading'), host('d')], { state: 'stopped' }),
      { c: reported('r-c-1', 'done') },
      'a done, b failed, c done, d waiting',
      'stopped',
    ],
    [
      'upgrades no further host while it is paused',
      run([host('a', 'upgrading'), host('b')], { state: 'paused' }),
      { a: reported('r-a-1', 'done') },
      'a done, b waiting',
      'paused',
    ],
    [
      'ignores the result of an earlier attempt on a host',
      run([host('a', 'upgrading', { upgradeId: 'r-a-2' }), host('b')]),
      { a: reported('r-a-1', 'failed') },
      'a upgrading, b waiting',
      'running',
    ],
    [
      'skips hosts that are offline, cannot be upgraded or were removed',
      run([host('a', 'done'), host('b'), host('c'), host('d'), host('e')]),
      { b: facts({ online: false }), c: facts({ upgradable: false }), d: undefined },
      'a done, b skipped, c skipped, d skipped, e upgrading',
      'running',
    ],
    [
      'does nothing on a host that already has the requested version',
      run([host('a'), host('b')]),
      { a: facts({ version: '2' }) },
      'a done, b waiting',
      'running',
    ],
    [
      'stops if the canary host was skipped',
      run([host('a', 'skipped'), host('b')]),
      {},
      'a skipped, b waiting',
      'stopped',
    ],
    [
      'counts a host that was removed during its upgrade as failed',
      run([host('a', 'upgrading'), host('b')]),
      { a: undefined },
      'a failed, b waiting',
      'stopped',
    ],
    [
      'is done when no host is left to upgrade',
      run([host('a', 'done'), host('b', 'upgrading')]),
      { b: reported('r-b-1', 'done') },
      'a done, b done',
      'done',
    ],
    [
      'rolls hosts back without waiting for a canary host',
      run([host('a'), host('b'), host('c', 'skipped')], { action: 'rollback' }),
      {},
      'a upgrading, b upgrading, c skipped',
      'running',
    ],
    [
      'rolls back a host after a successful upgrade, but not after an upgrade that undid itself',
      run([host('a', 'upgrading'), host('b', 'upgrading')], { action: 'rollback', parallel: 1 }),
      { a: reported('r-a-1', 'done'), b: reported('r-b-1', 'failed', 'why') },
      'a upgrading, b skipped',
      'running',
    ],
    [
      'skips the rollback of a host without earlier packages',
      run([host('a'), host('b')], { action: 'rollback' }),
      { a: facts({ previousVersion: '' }) },
      'a skipped, b upgrading',
      'running',
    ],
  ] as const)
    it(name, () => {
      const planned = plan(given, known)
      expect([states(planned), planned.state]).to.deep.equal([after, state])
    })

  it('stays the same while the hosts report the same states', () => {
    const known = { a: reported('r-a-1', 'installing') }
    const first = plan(run([host('a', 'upgrading'), host('b')]), known)
    expect(plan(first, known)).to.equal(first)
    const ended = plan(run([host('a', 'done')]))
    expect([ended.state, ended.endedAtMs, plan(ended)]).to.deep.equal(['done', 9, ended])
  })

  it('upgrades no further host if the gateway’s version has changed since the start of the fleet upgrade', () => {
    const planned = plan(run([host('a', 'done'), host('b'), host('c', 'upgrading')]), {}, '3')
    expect(states(planned)).to.equal('a done, b skipped, c upgrading')
    expect(planned.hosts[1]!.message).to.equal('the gateway was changed to version 3 meanwhile')
  })

  it('gives each attempt on a host a different id', () => {
    const begun = plan(run([host('a', 'waiting', { attempts: 1 })]))
    expect(begun.hosts[0]).to.include({ upgradeId: 'r-a-2', attempts: 2, message: '' })
  })

  it('stops if a host refuses to begin its upgrade', () => {
    const begun = plan(run([host('a')]))
    const refused = plan(refuseHost(begun, begun.hosts[0]!, 'no'))
    expect([refused.state, refused.hosts[0]!.state, refused.hosts[0]!.message]).to.deep.equal([
      'stopped',
      'failed',
      'no',
    ])
  })
})

describe('the commands for a fleet upgrade', () => {
  const hosts = [host('a', 'done'), host('b', 'failed', { message: 'why' }), host('c'), host('d', 'upgrading')]
  for (const [command, before, after, state] of [
    ['pause', 'running', 'a done, b failed, c waiting, d upgrading', 'paused'],
    ['resume', 'paused', 'a done, b waiting, c waiting, d upgrading', 'running'],
    ['resume', 'stopped', 'a done, b waiting, c waiting, d upgrading', 'running'],
    ['cancel', 'running', 'a done, b failed, c skipped, d upgrading', 'canceled'],
    ['rollback', 'stopped', 'a waiting, b skipped, c skipped, d upgrading', 'running'],
  ] as const)
    it(`include "${command}" for an upgrade that is ${before}`, () => {
      const planned = planCommand(run(hosts, { state: before }), command)
      expect([states(planned), planned.state]).to.deep.equal([after, state])
    })

  for (const [command, name, given] of [
    ['pause', 'that is paused', run(hosts, { state: 'paused' })],
    ['resume', 'that is running', run(hosts)],
    ['resume', 'that is done', run(hosts, { state: 'done' })],
    ['cancel', 'that is done', run(hosts, { state: 'done' })],
    [
      'rollback',
      'that has upgraded no host',
      run([host('a'), host('b', 'done', { upgradeId: '' })], { state: 'stopped' }),
    ],
    ['rollback', 'that is a rollback itself', run(hosts, { action: 'rollback' })],
    ['pause', 'that does not exist', null],
  ] as const)
    it(`do not include "${command}" for an upgrade ${name}`, () => {
      expect(() => planCommand(given, command satisfies RunCommand))
        .to.throw()
        .with.property('code', 'invalid_state')
    })

  it('do not start a second upgrade before the first upgrade has ended', () => {
    for (const given of [run(hosts), run(hosts, { state: 'paused' }), run(hosts, { state: 'canceled' })])
      expect(() => refuseSecondRun(given))
        .to.throw()
        .with.property('code', 'upgrade_running')
    refuseSecondRun(null)
    refuseSecondRun(run([host('a', 'failed'), host('b')], { state: 'stopped' }))
  })
})
