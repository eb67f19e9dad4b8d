import { expect } from 'chai'
import { BackupSettings } from '../../../proto/gen/berth/agent/v1/backup.js'
import { GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import { createTimeFormat } from '../../../shared/time.js'
import { planNewGuest } from './plan-new-guest.js'

const facts = { time: createTimeFormat('UTC'), nowMs: Date.UTC(2026, 0, 1) }
const spec = GuestSpec.fromPartial({
  virtualization: 'lxc',
  templateId: 'debian-12',
  limits: { vcpuMilli: 1500, ramMb: 256, diskGb: 3 },
  assignNat: true,
  portMappings: [{ protocol: 'tcp', containerPort: 22, containerPortEnd: 22, hostPort: 20_000, hostPortEnd: 20_000 }],
  ipv4Count: 1,
  snapshotLimit: 4,
  tags: ['web'],
})
const recorded = (more: Partial<GuestSpec> = {}): BackupSettings =>
  BackupSettings.fromPartial({ backupId: 'b', name: 'web1', spec: { ...spec, ...more } })

describe('the settings of a guest that is created from a backup', () => {
  it('are the settings in the backup, except for new host ports and addresses', () => {
    const made = planNewGuest({}, recorded(), facts)
    expect(made).to.deep.include({ name: 'web1', template_id: 'debian-12', vcpu: 1.5, ram_mb: 256, disk_gb: 3 })
    expect(made).to.deep.include({ ipv4_count: 1, snapshot_limit: 4, tags: ['web'] })
    expect(made.nat_port_mappings).to.deep.equal([
      { protocol: 'tcp', container_port: 22, container_port_end: 22, description: '' },
    ])
  })
  it('are taken from the backup, but a field of the request replaces all fields of the same setting', () => {
    const made = planNewGuest({ name: 'copy', port_mapping_count: 2, assign_ipv4: false }, recorded(), facts)
    expect(made).to.deep.include({ name: 'copy', port_mapping_count: 2, assign_ipv4: false, ram_mb: 256 })
    expect(made).not.to.have.any.keys('nat_port_mappings', 'ipv4_count')
  })
  it('contain no port mappings if the original guest had none', () =>
    expect(planNewGuest({}, recorded({ assignNat: false, portMappings: [] }), facts).assign_nat).to.equal(false))
  it('contain the recorded expiry only if it is in the future', () => {
    const at = (expiresAtMs: number) => planNewGuest({}, recorded({ expiresAtMs }), facts).expires_at
    expect(at(facts.nowMs + 86_400_000)).to.equal('2026-01-02 00:00:00')
    expect(at(facts.nowMs - 1)).to.equal(undefined)
  })
  it('must be in the request if the backup does not contain them', () => {
    expect(() => planNewGuest({}, undefined, facts)).to.throw('name: is required')
    expect(() => planNewGuest({ name: 'copy' }, undefined, facts)).to.throw('template_id: is required')
    const sent = { name: 'copy', template_id: 'debian-12' }
    expect(planNewGuest(sent, undefined, facts)).to.deep.equal(sent)
  })
})
