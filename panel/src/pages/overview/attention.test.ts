import { expect } from 'chai'
import type { FleetHostUsage, Guest, Host, Task } from '../../api/types.ts'
import { findHidden, planAttention, type FleetFacts } from './attention.ts'

const host = (at: number, fields: Partial<Host> = {}) =>
  ({
    id: `h-${at}`,
    name: `node${at}`,
    status: 'online',
    containers: 7,
    warnings: [],
    last_seen: '',
    ...fields,
  }) as Host
const usage = (at: number, fields: Partial<FleetHostUsage> = {}) =>
  ({
    host_id: `h-${at}`,
    disk_used_gb: 10,
    disk_total_gb: 100,
    disk_full_in_days: null,
    ports: { used: 0, total: 0 },
    public_ipv4: null,
    ...fields,
  }) as FleetHostUsage
const guest = (fields: Partial<Guest>) =>
  ({ id: 1, name: 'web', status: 'running', expires_at: '', ...fields }) as Guest
const task = (fields: Partial<Task>) =>
  ({ action: 'start', container_name: 'web', image_id: '', created_at: '2026-11-27 10:00:00', ...fields }) as Task

const calm: FleetFacts = {
  hosts: [host(1)],
  guests: [guest({})],
  usages: [usage(1)],
  failed: [],
  alerted: 0,
  nameOf: (id) => id.replace('h-', 'node'),
  warningText: (warning) => warning,
  isHidden: () => false,
  formatTime: (time) => time,
  formatPercent: (percent) => `${percent}%`,
  nowText: '2026-11-27 12:00:00',
  dayAgoText: '2026-11-26 12:00:00',
}
const planned = (facts: Partial<FleetFacts>) =>
  planAttention({ ...calm, ...facts }).map(({ text, values, names = [], href }) => [
    text.replace('attention.', ''),
    ...Object.values(values),
    ...names,
    href,
  ])
const range = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1)

describe('the list of things that need attention', () => {
  const offline = { status: 'offline', last_seen: '2026-11-27 11:48:00' } as const
  const full = { ports: { used: 100, total: 100 } }
  for (const [name, facts, expected] of [
    ['is empty if nothing in the fleet needs attention', {}, []],
    [
      'is empty before any data has arrived',
      { hosts: undefined, guests: undefined, usages: undefined, failed: undefined, alerted: undefined },
      [],
    ],
    [
      'contains an offline host',
      { hosts: [host(1, offline)] },
      [['hostOffline', 'node1', '2026-11-27 11:48:00', 7, '#/hosts/h-1']],
    ],
    [
      'combines many offline hosts into one entry',
      { hosts: range(100).map((at) => host(at, offline)) },
      [['hostsOffline', 100, 700, '#/hosts']],
    ],
    [
      'contains a guest with an error',
      { guests: [guest({ status: 'error' })] },
      [['guestError', 1, 'web', '#/containers/1']],
    ],
    [
      'contains each guest with failed backups once',
      { failed: [task({ action: 'backup-create' }), task({ action: 'backup-create' })] },
      [['backupFailed', 1, 'web', '#/tasks?status=failed']],
    ],
    [
      'contains the number of failed tasks other than backups',
      { failed: [task({}), task({ container_name: 'db' })] },
      [['tasksFailed', 2, 'web', 'db', '#/tasks?status=failed']],
    ],
    [
      'does not contain tasks that failed more than a day ago',
      { failed: [task({ created_at: '2026-11-26 11:59:59' })] },
      [],
    ],
    [
      'contains a disk that will be full soon',
      { usages: [usage(1, { disk_full_in_days: 3 })] },
      [['diskFull', 'node1', 3, 'node1', '#/hosts/h-1']],
    ],
    ['does not contain a disk that will not be full soon', { usages: [usage(1, { disk_full_in_days: 41 })] }, []],
    [
      'contains a disk that is almost full',
      { usages: [usage(1, { disk_used_gb: 95 })] },
      [['diskUsed', 'node1', '95%', 'node1', '#/hosts/h-1']],
    ],
    [
      'contains pools that are full or almost full',
      { usages: [usage(1, { ...full, public_ipv4: { used: 19, total: 20 } })] },
      [
        ['portsNone', 'node1', 0, 100, 'node1', '#/routing'],
        ['ipv4Low', 'node1', 1, 20, 'node1', '#/routing'],
      ],
    ],
    [
      'combines hosts with the same problem into one entry',
      { usages: range(5).map((at) => usage(at, full)) },
      [['poolsLow', 5, 'node1', 'node2', 'node3', 'node4', 'node5', '#/routing']],
    ],
    [
      'contains the number of expired and suspended guests',
      { guests: [guest({ expires_at: '2026-11-27 11:00:00' }), guest({ policy: 'suspended' })] },
      [
        ['expired', 1, '#/containers?flag=expired'],
        ['suspended', 1, '#/containers?flag=suspended'],
      ],
    ],
  ] as const)
    it(name, () => expect(planned(facts)).to.deep.equal(expected))

  describe('whose warnings the user can hide', () => {
    const warned = (at: number) => host(at, { warnings: ['a', 'b'] })
    const shown = (count: number, isHidden: FleetFacts['isHidden']) =>
      planAttention({ ...calm, hosts: range(count).map(warned), isHidden }).map(({ warnings }) => warnings)

    it('contains the other warnings', () => expect(shown(1, (key) => key === 'h-1 a')).to.deep.equal([['h-1 b']]))

    it('combines only warnings that are not hidden', () =>
      expect(shown(3, (key) => key.endsWith('a') && key !== 'h-1 a')).to.deep.equal([
        ['h-1 a', 'h-1 b', 'h-2 b', 'h-3 b'],
      ]))

    it('does not count hidden warnings that have ended', () => {
      const isHidden = (key: string): boolean => ['h-1 a', 'h-1 ended'].includes(key)
      expect(findHidden({ hosts: [warned(1)], isHidden })).to.deep.equal(['h-1 a'])
    })
  })
})
