import { expect } from 'chai'
import type { FleetFacts, HostFact, HostUsageFact, TaskFact } from './facts.js'
import { planProblems } from './plan-problems.js'

const now = '2026-11-27 12:00:00'

const host = (fields: Partial<HostFact> = {}): Partial<FleetFacts> => ({
  hosts: [
    {
      id: 'h1',
      name: 'host-a',
      status: 'online',
      last_seen: now,
      version: '1.0.0',
      outdated: false,
      certificate_expires_at: '2027-01-01 00:00:00',
      warnings: [],
      install: null,
      upgrade: null,
      ...fields,
    },
  ],
})

const usage = (fields: Partial<HostUsageFact> = {}): Partial<FleetFacts> => ({
  ...host(),
  usage: {
    hosts: [
      {
        host_id: 'h1',
        disk_used_gb: 10,
        disk_total_gb: 100,
        disk_full_in_days: null,
        ports: null,
        public_ipv4: null,
        ...fields,
      },
    ],
  },
})

const task = (finished_at: string): TaskFact => ({
  task_id: 't1',
  action: 'start',
  container_name: 'web1',
  image_id: '',
  error: 'the guest is broken',
  error_code: 'guest_broken',
  finished_at,
})

const gateway = (state: string, version = '1.0.0', answers = false) => ({ name: `g-${state}`, state, version, answers })
const tls = (not_after: string, renews_at = '') => ({
  ssl: { enabled: true, certificate: { not_after, renews_at }, warnings: [] },
})
const authority = (not_after: string, state = 'none', missing: string[] = []) => ({
  authority: { not_after, rotation: { state, missing_hosts: missing.map((name) => ({ name })) } },
})

describe('berth doctor', () => {
  for (const [name, facts, code, text] of [
    ['an offline host', host({ status: 'offline' }), 'host_offline', 'host-a is offline since 2026-11-27 12:00:00'],
    ['a host without an agent', host({ status: 'pending' }), 'host_pending', 'No agent has joined host host-a'],
    [
      'a failed installation',
      host({ status: 'pending', install: { step: 'failed', message: 'no space' } }),
      'host_install_failed',
      'failed: no space',
    ],
    ['a warning of a host', host({ warnings: ['the clock is wrong'] }), 'host_warning', 'host-a: the clock is wrong'],
    ['an agent of another version', host({ outdated: true }), 'host_outdated', '1.0.0'],
    [
      'a failed upgrade of a host',
      host({ outdated: true, upgrade: { state: 'failed', message: 'no space', to: '2.0.0' } }),
      'host_upgrade_failed',
      'to 2.0.0 failed: no space',
    ],
    [
      'an expired certificate of a host',
      host({ certificate_expires_at: '2026-11-27 11:59:59' }),
      'host_certificate',
      'expired at 2026-11-27 11:59:59',
    ],
    ['a nearly full disk', usage({ disk_used_gb: 95 }), 'host_disk', '95 % full'],
    ['a disk that will be full soon', usage({ disk_full_in_days: 2.5 }), 'host_disk', 'full in about 3 days'],
    ['a host with few free ports', usage({ ports: { used: 99, total: 100 } }), 'host_pool', 'only 1 of 100 ports'],
    ['an offline gateway', { gateways: [gateway('offline')] }, 'gateway_offline', 'g-offline is offline'],
    [
      'a gateway of another version',
      { gateways: [gateway('online', '1.0.0', true), gateway('online', '0.9.0')] },
      'gateway_version',
      'version 0.9.0, but this gateway has 1.0.0',
    ],
    ['an expired TLS certificate', tls('2026-11-26 00:00:00', '2026-10-01 00:00:00'), 'tls_certificate', 'expired at'],
    ['a TLS certificate that nobody renews', tls('2026-12-01 00:00:00'), 'tls_certificate', 'expires at'],
    ['a certificate authority that expires soon', authority('2026-12-27 00:00:00'), 'authority_expiry', 'expires at'],
    [
      'a rotation of the certificate authority that waits for hosts',
      authority('2036-12-27 00:00:00', 'reissuing', ['host-a', 'host-b']),
      'authority_rotation',
      'host-a, host-b',
    ],
    [
      'a stopped upgrade of the fleet',
      { upgrade: { state: 'stopped', version: '2' } },
      'fleet_upgrade_stopped',
      'to 2 was stopped',
    ],
    [
      'a task that failed within the last day',
      { failedTasks: [task('2026-11-26 12:00:01')] },
      'task_failed',
      'start web1 failed at 2026-11-26 12:00:01: the guest is broken (guest_broken)',
    ],
  ] as const)
    it(`reports ${name}`, () => {
      const problems = planProblems({ now, ...(facts as Partial<FleetFacts>) })
      expect(problems.map((problem) => problem.code)).to.deep.equal([code])
      expect(problems[0]!.message).to.contain(text)
      expect(problems[0]!.next).not.to.equal('')
    })

  for (const [name, facts] of [
    ['a healthy host', usage({ disk_full_in_days: 300, ports: { used: 1, total: 100 } })],
    [
      'an outdated host that is being upgraded',
      host({ outdated: true, upgrade: { state: 'running', message: '', to: '2' } }),
    ],
    ['a host whose disk usage is unknown', usage({ disk_used_gb: null })],
    ['an invited gateway', { gateways: [gateway('invited', '')] }],
    ['a TLS certificate that is renewed in time', tls('2026-12-01 00:00:00', '2026-11-28 00:00:00')],
    ['a rotation of the certificate authority that waits for no host', authority('2026-12-27 00:00:00', 'ready')],
    ['a task that failed more than a day ago', { failedTasks: [task('2026-11-26 11:59:59')] }],
  ] as const)
    it(`does not report ${name}`, () =>
      expect(planProblems({ now, ...(facts as Partial<FleetFacts>) })).to.deep.equal([]))

  it('lists ten failed tasks, and counts all further failed tasks in one line', () => {
    const problems = planProblems({ now, failedTasks: Array.from({ length: 12 }, () => task(now)) })
    expect(problems).to.have.length(11)
    expect(problems.at(-1)!.message).to.equal('2 further tasks of the last day failed.')
  })
})
