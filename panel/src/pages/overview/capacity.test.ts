import { expect } from 'chai'
import type { FleetHostUsage } from '../../api/types.ts'
import { byLoad, firstFull, sumCapacity } from './capacity.ts'

const host = (id: string, fields: Partial<FleetHostUsage> = {}) =>
  ({
    host_id: id,
    cpu_usage_pct: 50,
    cpu_cores: 10,
    vcpu_allocated: 20,
    ram_used_mb: 100,
    ram_total_mb: 1000,
    ram_allocated_mb: 700,
    disk_used_gb: 30,
    disk_total_gb: 100,
    disk_allocated_gb: 80,
    disk_full_in_days: null,
    ...fields,
  }) as FleetHostUsage
const away = { cpu_usage_pct: null, ram_used_mb: null, disk_used_gb: null }

describe('the capacity of a fleet', () => {
  for (const [name, hosts, expected] of [
    ['is unknown without hosts', [], { used: undefined, usedPercent: undefined, total: 0, committed: 0 }],
    ['weights hosts by their size', [host('a'), host('b', { cpu_usage_pct: 0, cpu_cores: 30 })], { usedPercent: 12.5 }],
    ['ignores hosts of unknown usage', [host('a'), host('b', away)], { usedPercent: 50, used: 5, total: 20 }],
    [
      'adds up the allocated resources of all hosts',
      [host('a'), host('b', away)],
      { committed: 40, committedPercent: 200 },
    ],
    ['is unknown if all hosts are offline', [host('a', away)], { usedPercent: undefined, used: undefined, total: 10 }],
  ] as const)
    it(name, () => expect(sumCapacity(hosts, 'cpu')).to.include(expected))

  it('lists first the hosts with the highest load of any resource, and last the hosts with unknown load', () => {
    const hosts = [host('away', away), host('calm', { cpu_usage_pct: 1 }), host('full', { disk_used_gb: 99 })]
    expect(byLoad(hosts).map(({ host_id: id }) => id)).to.deep.equal(['full', 'calm', 'away'])
  })

  it('contains the host whose disk will be full first', () => {
    expect(firstFull([host('a'), host('b')])).to.equal(undefined)
    expect(firstFull([host('a', { disk_full_in_days: 9 }), host('b', { disk_full_in_days: 3 })])?.host_id).to.equal('b')
  })
})
