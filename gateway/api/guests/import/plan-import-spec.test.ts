import { expect } from 'chai'
import { DescribeArchiveResponse } from '../../../../proto/gen/berth/agent/v1/archive.js'
import { GuestSpec } from '../../../../proto/gen/berth/agent/v1/guest.js'
import type { Principal } from '../../../access/principal.js'
import { planImportSpec } from './plan-import-spec.js'

const admin = { kind: 'key', guests: 'all', scopes: ['*'] } as unknown as Principal
const creator = { ...admin, scopes: ['container:create'] } as Principal
const limits = {
  ...{ vcpuMilli: 1500, ramMb: 256, diskGb: 3, networkDownMbps: 10, networkUpMbps: 20 },
  ...{ ioReadMbps: 1, ioWriteMbps: 2, ioReadIops: 3, ioWriteIops: 4 },
}
const mapping = {
  ...{ protocol: 'tcp', hostIp: '', hostPort: 20_080, hostPortEnd: 0 },
  ...{ containerPort: 80, containerPortEnd: 0, description: 'web' },
}

function described(spec: Partial<GuestSpec> = {}): DescribeArchiveResponse {
  const own = { limits, portMappings: [mapping], devices: ['tun'], tags: ['web'], ...spec }
  return DescribeArchiveResponse.create({ name: 'web1', spec: GuestSpec.create(own) })
}

function errorOf(act: () => unknown): unknown {
  try {
    return act()
  } catch (error) {
    return error
  }
}

describe('the container of an archive that a host has described', () => {
  it('has the settings of the archive', () => {
    const { name, spec, notes } = planImportSpec(described(), {}, admin)
    expect(name).to.equal('web1')
    expect(notes).to.deep.equal([])
    expect(spec).to.deep.include({ virtualization: 'lxc', assignNat: true, start: false, snapshotLimit: 5 })
    expect(spec).to.deep.include({ limits, devices: ['tun'], tags: ['web'] })
    expect(spec.portMappings).to.deep.equal([{ ...mapping, hostPortEnd: 20_080, containerPortEnd: 80 }])
  })

  it('has the name, limits and start of the query, even if the host ignores them', () => {
    const query = { name: 'other', vcpu: 0.5, ram_mb: 64, disk_gb: 1, start: true }
    const { name, spec } = planImportSpec(described(), query, admin)
    expect(name).to.equal('other')
    expect(spec.limits).to.deep.equal({ ...limits, vcpuMilli: 500, ramMb: 64, diskGb: 1 })
    expect(spec.start).to.equal(true)
  })

  it('is not started without the firewall of the archive', () => {
    const notes = [{ part: 'firewall', reason: 'it has 1 rules' }]
    const act = (start: boolean) => () => planImportSpec({ ...described(), notes }, { start }, admin)
    expect(errorOf(act(true))).to.have.property('code', 'invalid_field')
    expect(act(false)().notes).to.deep.equal(notes)
  })

  it('has nothing that an archive cannot contain', () => {
    const hostile = {
      ...{ virtualization: 'kvm', templateId: 'windows', sshPassword: 'x', sshPublicKey: 'x', sshAuthMode: 'key' },
      ...{ publicIpv4s: ['203.0.113.7'], ipv4Count: 9, ipv6Count: 9, userData: 'x', importId: 'x', start: true },
      ...{ snapshotLimit: 1000, expiresAtMs: 1, assignNat: false },
    }
    expect(planImportSpec(described(hostile), {}, admin).spec).to.deep.equal(
      planImportSpec(described(), {}, admin).spec,
    )
  })

  it('has no devices if the caller may not allow them', () => {
    const { spec, notes } = planImportSpec(described(), {}, creator)
    expect(spec.devices).to.deep.equal([])
    expect(notes).to.have.length(1)
  })

  const invalid: readonly [name: string, spec: Partial<GuestSpec>][] = [
    ['no limits', { limits: undefined }],
    ['too much memory', { limits: { ...limits, ramMb: 4_194_305 } }],
    ['too little disk', { limits: { ...limits, diskGb: 0 } }],
    ['an unknown device', { devices: ['kvm'] }],
    ['an invalid tag', { tags: ['A b'] }],
    ['a mapping without a protocol', { portMappings: [{ ...mapping, protocol: '' }] }],
    ['ranges of different length', { portMappings: [{ ...mapping, hostPortEnd: 20_090, containerPortEnd: 81 }] }],
    ['a description with a line break', { portMappings: [{ ...mapping, description: 'a\nb' }] }],
    ['too many mappings', { portMappings: Array.from({ length: 1001 }, () => mapping) }],
  ]
  for (const [name, spec] of invalid)
    it(`is refused if the host describes ${name}`, () => {
      expect(errorOf(() => planImportSpec(described(spec), {}, admin))).to.have.property('code', 'agent_error')
    })

  it('is refused with an invalid name', () => {
    for (const name of ['list', '../x', '12'])
      expect(errorOf(() => planImportSpec(described(), { name }, admin))).to.have.property('code', 'invalid_field')
  })

  it('has a bounded number of notes of bounded length', () => {
    const note = { part: 'p'.repeat(1000), reason: 'r'.repeat(1000) }
    const answer = { ...described(), notes: Array.from({ length: 2000 }, () => note) }
    const { notes } = planImportSpec(answer, {}, admin)
    expect(notes).to.have.length(1100)
    expect(notes[0]).to.deep.equal({ part: 'p'.repeat(500), reason: 'r'.repeat(500) })
  })
})
