import { expect } from 'chai'
import { Guest, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../../proto/gen/berth/agent/v1/host.js'
import { BerthError } from '../../../shared/errors.js'
import type { HostView } from '../contract.js'
import { planPlacement, withoutCopy, type Candidate } from './plan-placement.js'
import { noNeighbors } from './plan-rules.js'
import type { Allocation } from '../../../shared/allocation.js'

const ratios = { cpu: 0, ram: 2, disk: 1 }
const empty: Allocation = { vcpuMilli: 0, ramMb: 0, diskGb: 0 }

const templates = new Map([
  ['debian-12', { disabled: false, unsupported: '' }],
  ['disabled', { disabled: true, unsupported: '' }],
  ['foreign', { disabled: false, unsupported: 'for another architecture' }],
])

function candidate(id: string, changes: Partial<HostView> = {}, allocated: Partial<Allocation> = {}): Candidate {
  const host: HostView = {
    id,
    name: id,
    address: 'a:1',
    install: undefined,
    joinToken: 'none',
    upgrade: undefined,
    outdated: false,
    state: 'online',
    draining: false,
    drained: undefined,
    maintenance: [],
    group: '',
    labels: [],
    createdAtMs: 0,
    lastSeenMs: 0,
    publicAddress: { host: '', source: 'none' },
    certificateNotAfterMs: 0,
    warnings: [],
    fenced: 0,
    metrics: undefined,
    description: describe_({}),
    ...changes,
  }
  return { host, findTemplate: (id) => templates.get(id), allocated: { ...empty, ...allocated } }
}

function describe_(capabilities: { kvm?: boolean; lxc?: boolean; kvmAcceleration?: string }): HostDescription {
  return HostDescription.fromPartial({
    features: ['placement'],
    capabilities: { lxc: true, ...capabilities },
    capacity: { cpuCores: 4, ramTotalMb: 1000, diskTotalGb: 100 },
  })
}

function spec(changes: object = {}): GuestSpec {
  const limits = { vcpuMilli: 1000, ramMb: 100, diskGb: 10 }
  const virtualization = 'lxc'
  return GuestSpec.fromPartial({ templateId: 'debian-12', virtualization, limits, ...changes })
}

const kvm = { virtualization: 'kvm' }

describe('the placement of a new guest', () => {
  for (const [name, wanted, candidates, hostId, result] of [
    ['selects the only host', spec(), [candidate('a')], undefined, 'a'],
    ['prefers a host with more free RAM', spec(), [candidate('a', {}, { ramMb: 900 }), candidate('b')], undefined, 'b'],
    ['rejects a disabled template', spec({ templateId: 'disabled' }), [candidate('a')], undefined, 'image_disabled'],
    [
      'rejects a template that the host does not support',
      spec({ templateId: 'foreign' }),
      [candidate('a')],
      undefined,
      'unsupported',
    ],
    [
      'prefers a host with more free disk space',
      spec(),
      [candidate('a', {}, { diskGb: 50 }), candidate('b')],
      undefined,
      'b',
    ],
    [
      'prefers a host with more free vCPUs',
      spec(),
      [candidate('a', {}, { vcpuMilli: 60_000 }), candidate('b')],
      undefined,
      'b',
    ],
    [
      'selects the first host by id if several hosts are equal',
      spec(),
      [candidate('b'), candidate('a')],
      undefined,
      'a',
    ],
    [
      'selects the requested host, even if another host has less load',
      spec(),
      [candidate('a', {}, { ramMb: 900 }), candidate('b')],
      'a',
      'a',
    ],
    [
      'selects another host if the least loaded host is offline',
      spec(),
      [candidate('a', { state: 'offline' }), candidate('b', {}, { ramMb: 900 })],
      undefined,
      'b',
    ],
    [
      'selects another host if the least loaded host is draining',
      spec(),
      [candidate('a', { draining: true }), candidate('b', {}, { ramMb: 900 })],
      undefined,
      'b',
    ],
    [
      'selects a host with KVM for a virtual machine',
      spec(kvm),
      [candidate('a'), candidate('b', { description: describe_({ kvm: true }) })],
      undefined,
      'b',
    ],
    [
      'accepts a guest that fills RAM and disk exactly to their overcommit ratios',
      spec(),
      [candidate('a', {}, { ramMb: 1900, diskGb: 90 })],
      undefined,
      'a',
    ],
    [
      'accepts any number of vCPUs if the overcommit ratio of vCPUs is 0',
      spec(),
      [candidate('a', {}, { vcpuMilli: 4_000_000 })],
      undefined,
      'a',
    ],
    [
      'rejects a guest whose RAM would exceed the overcommit ratio of every host',
      spec(),
      [candidate('a', {}, { ramMb: 1901 })],
      undefined,
      'resource_exhausted',
    ],
    [
      'rejects a guest whose disk would exceed the overcommit ratio of the requested host',
      spec(),
      [candidate('a', {}, { diskGb: 91 })],
      'a',
      'resource_exhausted',
    ],
    [
      'rejects a guest that is larger than every host',
      spec({ limits: { ramMb: 3000 } }),
      [candidate('a')],
      undefined,
      'resource_exhausted',
    ],
    [
      'rejects a guest if the size of the only host is unknown',
      spec(),
      [candidate('a', { description: undefined })],
      undefined,
      'unsupported',
    ],
    ['rejects a request for a host that does not exist', spec(), [candidate('a')], 'b', 'not_found'],
    [
      'rejects a request for an offline host',
      spec(),
      [candidate('a', { state: 'offline' }), candidate('b')],
      'a',
      'host_offline',
    ],
    ['rejects a request for a draining host', spec(), [candidate('a', { draining: true })], 'a', 'invalid_state'],
    ['rejects all guests if there are no hosts', spec(), [], undefined, 'host_offline'],
    [
      'rejects all guests if no host has joined yet',
      spec(),
      [candidate('a', { state: 'pending' })],
      undefined,
      'host_offline',
    ],
    ['rejects a virtual machine if no host has KVM', spec(kvm), [candidate('a')], undefined, 'unsupported'],
    [
      'selects a loaded host of the required group rather than an empty host outside this group',
      spec({ placement: { group: 'eu' } }),
      [candidate('a', { group: 'eu' }, { ramMb: 900 }), candidate('b')],
      undefined,
      'a',
    ],
    [
      'rejects a requested host outside the required group',
      spec({ placement: { group: 'eu' } }),
      [candidate('a', { group: 'eu' }), candidate('b')],
      'b',
      'placement_group',
    ],
    [
      'rejects a guest if only an offline host has the required label',
      spec({ placement: { labels: ['ssd'] } }),
      [candidate('a', { labels: ['ssd'], state: 'offline' }), candidate('b')],
      undefined,
      'placement_label',
    ],
    [
      'rejects a guest if the only host of the required group is full',
      spec({ placement: { group: 'eu' } }),
      [candidate('a', { group: 'eu' }, { ramMb: 1901 }), candidate('b')],
      undefined,
      'resource_exhausted',
    ],
    [
      'rejects placement rules if no agent is new enough to support them',
      spec({ placement: { spread: 'web' } }),
      [candidate('a', { description: { ...describe_({}), features: [] } })],
      undefined,
      'agent_outdated',
    ],
    ['rejects a template that does not exist', spec({ templateId: 'arch' }), [candidate('a')], undefined, 'not_found'],
  ] as const)
    it(name, () => {
      let placed: string | undefined
      try {
        placed = planPlacement(wanted, candidates, { ratios, hostId })[0]
      } catch (error) {
        placed = (error as BerthError).code
      }
      expect(placed).to.equal(result)
    })

  it('prefers the host with most guests of the same “together” group', () => {
    const together = new Map([
      ['b', 1],
      ['c', 2],
    ])
    const placement = { group: '', labels: [], spread: '', together: 'app' }
    const candidates = [candidate('a'), candidate('b'), candidate('c', {}, { ramMb: 500 })]
    const facts = { ratios, neighbors: { ...noNeighbors, together } }
    expect(planPlacement(spec({ placement }), candidates, facts)).to.deep.equal(['c', 'b'])
  })

  it('chooses a host whose agent can create guests with a firewall or a backup schedule', () => {
    const modern = { description: { ...describe_({}), features: ['create-settings'] } }
    const facts = { ratios, hasSettings: true }
    expect(planPlacement(spec(), [candidate('a'), candidate('b', modern)], facts)).to.deep.equal(['b'])
    expect(() => planPlacement(spec(), [candidate('a')], facts)).to.throw('a is too old for a firewall')
  })

  it('lists all suitable hosts, beginning with the least loaded host', () => {
    const candidates = [
      candidate('a', {}, { ramMb: 900 }),
      candidate('b', { state: 'offline' }),
      candidate('c'),
      candidate('d', {}, { ramMb: 500 }),
    ]
    expect(planPlacement(spec(), candidates, { ratios })).to.deep.equal(['c', 'd', 'a'])
    expect(planPlacement(spec(), candidates, { ratios, hostId: 'd' })).to.deep.equal(['d'])
  })

  it('prefers hosts with KVM acceleration for virtual machines, and other hosts for LXC containers', () => {
    const can = (kvmAcceleration: string) => ({ description: describe_({ kvm: true, kvmAcceleration }) })
    const candidates = [
      candidate('a', can('tcg')),
      candidate('b', can('kvm'), { ramMb: 900 }),
      candidate('c', can('kvm'), { ramMb: 500 }),
      candidate('d', can('tcg'), { ramMb: 300 }),
    ]
    expect(planPlacement(spec(kvm), candidates, { ratios })).to.deep.equal(['c', 'b', 'a', 'd'])
    expect(planPlacement(spec(), candidates, { ratios })).to.deep.equal(['a', 'd', 'c', 'b'])
    const full = [candidate('e', can('kvm'), { ramMb: 1901 }), candidate('f', can('tcg'))]
    expect(planPlacement(spec(kvm), full, { ratios })).to.deep.equal(['f'])
  })
})

describe('the allocation of the host of a guest’s standby', () => {
  const metrics = HostMetrics.fromPartial({ standbyDiskGb: 15 })
  const guest = Guest.fromPartial({ limits: { diskGb: 10 }, standby: { standbyId: 's1', hostId: 'b' } })

  it('does not contain the copy, which becomes the disk of the guest', () => {
    const candidates = [candidate('a', { metrics }, { diskGb: 50 }), candidate('b', { metrics }, { diskGb: 50 })]
    expect(withoutCopy(candidates, guest).map(({ allocated }) => allocated.diskGb)).to.deep.equal([50, 40])
  })

  it('is unchanged if the host has no copy, or the guest has no standby', () => {
    const candidates = [candidate('b', {}, { diskGb: 50 })]
    expect(withoutCopy(candidates, guest)[0]!.allocated.diskGb).to.equal(50)
    expect(withoutCopy(candidates, Guest.fromPartial({}))[0]!.allocated.diskGb).to.equal(50)
  })
})
