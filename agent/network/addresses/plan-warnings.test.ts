import { expect } from 'chai'
import { describeUnserved, planPoolWarnings } from './plan-warnings.js'

const item = (device: string, gateway = '') => ({
  address: '203.0.113.5',
  interface: device,
  prefixLen: 32,
  gateway,
})
const route = { interface: 'eth0', gateway: '198.51.100.254' }

describe('warnings of a pool', () => {
  for (const [name, pool, missing, way, warnings] of [
    ['none', [], [], undefined, []],
    ['the usual way', [item('eth0'), item('eth0', '198.51.100.254')], [], route, []],
    [
      'another interface',
      [item('eth1'), item('eth1')],
      [],
      route,
      ['public addresses of eth1 leave the host through eth0 and 198.51.100.254: its router must accept them'],
    ],
    [
      'another router',
      [item('eth0', '203.0.113.1')],
      [],
      route,
      [
        'public addresses of eth0 and 203.0.113.1 leave the host through eth0 and 198.51.100.254: its router must accept them',
      ],
    ],
    [
      'no default route',
      [item('eth0')],
      [],
      undefined,
      ['public addresses cannot be used: the host has no IPv4 default route'],
    ],
    [
      'no interface',
      [item('eth0')],
      ['eth2'],
      route,
      ['public addresses are configured for eth2, which does not exist'],
    ],
  ] as const)
    it(name, () => expect(planPoolWarnings(pool, missing, way)).to.deep.equal(warnings))
})

describe('warnings of port mappings', () => {
  it('name addresses that the host does not have', () => {
    const mapped = new Set(['198.51.100.1', '198.51.100.2', '2001:db8::2'])
    expect(describeUnserved(mapped, () => ['198.51.100.1', '2001:db8::2'])).to.deep.equal([
      'port mappings use 198.51.100.2 (host_ip), which the host does not have',
    ])
  })
})
