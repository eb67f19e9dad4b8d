import { expect } from 'chai'
import type { ExportManifest } from '../exports/manifest.js'
import { planExport } from './plan-export.js'

type Guest = ExportManifest['guest']

const guest: Guest = {
  name: 'web1',
  template: 'debian-12',
  limits: {
    vcpu: 0.5,
    ram_mb: 512,
    disk_gb: 4,
    network_down_mbps: 100,
    network_up_mbps: 50,
    io_read_mbps: 0,
    io_write_mbps: 0,
    io_read_iops: 10,
    io_write_iops: 0,
  },
  devices: ['tun', 'kvm'],
  port_mappings: [],
  firewall: { enabled: false, default_action: 'ACCEPT', rules: [] },
  ssh_login: 'key',
}
const mapping = { protocol: 'tcp', host_ip: '', description: '' } as const
const plan = (change: Partial<Guest> = {}) =>
  planExport({ format: 'berth-guest-export', version: 1, exported_at: '', guest: { ...guest, ...change } })

describe('the container in an export', () => {
  it('has the limits and known devices of the manifest', () => {
    const { rates, ...container } = plan()
    expect(container).to.deep.include({ name: 'web1', vcpuMilli: 500, ramMb: 512, devices: ['tun'], notes: [] })
    expect(rates).to.include({ networkDownMbps: 100, networkUpMbps: 50, ioReadIops: 10 })
  })

  it('has the valid port mappings, and a note about the others', () => {
    const range = { ...mapping, host_port: 2000, host_port_end: 2009, container_port: 3000, container_port_end: 3009 }
    const { mappings, notes } = plan({ port_mappings: [range, { ...range, container_port_end: 3001 }] })
    expect(mappings).to.deep.equal([{ protocol: 'tcp', hostIp: '', hostPort: 2000, containerPort: 3000, length: 10 }])
    expect(notes).to.deep.equal([{ part: 'port mappings', reason: '1 of them are not valid' }])
  })

  it('has the descriptions of port mappings that are valid', () => {
    const port = { ...mapping, host_port: 2000, host_port_end: 2000, container_port: 80, container_port_end: 80 }
    const { mappings } = plan({
      port_mappings: [
        { ...port, description: 'web' },
        { ...port, description: 'two\nlines' },
      ],
    })
    expect(mappings.map(({ description }) => description)).to.deep.equal(['web', undefined])
  })

  it('has the valid tags, and notes about invalid tags, the firewall and the text note of the guest', () => {
    expect(plan({ tags: ['b', 'a'] })).to.deep.include({ tags: ['a', 'b'] })
    const { tags, notes } = plan({ tags: ['A B'], note: 'x', firewall: { ...guest.firewall, enabled: true } })
    expect(tags).to.equal(undefined)
    expect(notes.map(({ part }) => part)).to.deep.equal(['tags', 'firewall', 'note'])
  })
})
