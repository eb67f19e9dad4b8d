import { expect } from 'chai'
import { HostDescription } from '../../proto/gen/berth/agent/v1/host.js'
import type { DriverDescription } from '../drivers/contract.js'
import { describeHost, type DescriptionParts } from './host-description.js'

const lxc: DriverDescription = {
  available: false,
  acceleration: '',
  reason: 'lxc-start is not there',
  capabilities: {
    consoles: ['text'],
    liveResize: ['vcpu', 'memory_up'],
    freeze: true,
    setPassword: ['running', 'stopped'],
    snapshotRunning: true,
  },
}
const parts: DescriptionParts = {
  version: '1.2.3',
  timeZone: 'UTC',
  drivers: new Map([
    ['lxc', lxc],
    ['kvm', { ...lxc, available: true, acceleration: 'tcg', reason: '' }],
  ]),
  cgroupVersion: 2,
  lxcfs: true,
  cpuCores: 2,
  ramTotalMb: 4096,
  poolTotalBytes: 0,
  natPorts: { start: 1, end: 2 },
  ipv4Total: 0,
  sharedPools: [{ name: 'rack', range: '203.0.113.0/24' }],
}

const translated = (acceleration: string) => ({ acceleration, accelerationReason: '' })

describe('the description of a host', () => {
  /** The host's description as the gateway receives it. */
  const sent = HostDescription.decode(
    HostDescription.encode(HostDescription.create({ ...describeHost(parts), hostId: 'h' })).finish(),
  )

  it('lists the drivers and their features, and why a driver is unavailable', () => {
    const { consoles, liveResize, freeze, setPassword, snapshotRunning } = lxc.capabilities
    const can = { consoles, liveResize, freeze, setPassword, snapshotRunning }
    expect(sent.capabilities?.drivers).to.deep.equal([
      { kind: 'lxc', available: false, reason: 'lxc-start is not there', ...translated(''), ...can },
      { kind: 'kvm', available: true, reason: '', ...translated('tcg'), ...can },
    ])
    expect(sent.capabilities).to.include({ lxc: false, kvm: true, kvmAcceleration: 'tcg', cgroupVersion: 2 })
  })
})
