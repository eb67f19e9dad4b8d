import { expect } from 'chai'
import { describeUnserved, planPoolWarnings } from './plan-warnings.js'

const item = (device: string, gateway = '') => ({
  address: '203.0.113.5',
  interface: device,
  prefixLen: 32,
  gateway,
})
const route = { interface: 'eth0', gateway: '198.51.100.254' }

describe('warnings about the pool of public addresses', () => {
  for (const [name, pool, missing, way, warnings] of [
    ['are absent for an empty pool', [], [], undefined, []],
    [
      'are absent if the addresses use the interface and the router of the default route',
      [item('eth0'), item('eth0', '198.51.100.254')],
      [],
      route,
      [],
    ],
    [
      'name the interface of the addresses if the default route uses a different interface',
      [item('eth1'), item('eth1')],
      [],
      route,
      [
        'packets from the public addresses of eth1 leave the host through eth0 and 198.51.100.254: that router must accept these packets',
      ],
    ],
    [
      'name the router of the addresses if the default route uses a different router',
      [item('eth0', '203.0.113.1')],
      [],
      route,
      [
        'packets from the public addresses of eth0 and 203.0.113.1 leave the host through eth0 and 198.51.100.254: that router must accept these packets',
      ],
    ],
    [
      'say that the host has no default route',
      [item('eth0')],
      [],
      undefined,
      ['public addresses cannot be used: the host has no IPv4 default route'],
    ],
    [
      'name the interface of the addresses if the host does not have this interface',
      [item('eth0')],
      ['eth2'],
      route,
      ['public addresses are configured for eth2, which does not exist'],
    ],
  ] as const)
    it(name, () => expect(planPoolWarnings(pool, missing, way)).to.deep.equal(warnings))
})

describe('warnings about port mappings', () => {
  it('name addresses that the host does not have', () => {
    const mapped = new Set(['198.51.100.1', '198.51.100.2', '2001:db8::2'])
    expect(describeUnserved(mapped, () => ['198.51.100.1', '2001:db8::2'])).to.deep.equal([
      'port mappings use 198.51.100.2 (host_ip), which the host does not have',
    ])
  })
})
