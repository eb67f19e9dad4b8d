import { expect } from 'chai'
import { planLxd } from './plan-lxd.js'

/** Id map in the form of an older version of LXD: one range for users and one for groups. */
const idmap = JSON.stringify([
  { Isuid: true, Isgid: false, Hostid: 1_000_000, Nsid: 0, Maprange: 65_536 },
  { Isuid: false, Isgid: true, Hostid: 1_000_000, Nsid: 0, Maprange: 65_536 },
])
const ids = (first: number, count = 65_536) => {
  const range = [{ first, shown: 0, count }]
  return { users: range, groups: range }
}

/** Answer of `lxc query /1.0/instances/web1`, shortened. */
const instance = {
  architecture: 'x86_64',
  config: { 'limits.cpu': '2' },
  created_at: '2024-01-30T09:00:00Z',
  devices: {},
  ephemeral: false,
  expanded_config: {
    'image.os': 'Debian',
    'limits.cpu': '2',
    'limits.memory': '2GiB',
    'volatile.eth0.hwaddr': '00:16:3e:01:02:03',
    'volatile.idmap.base': '0',
    'volatile.last_state.idmap': idmap,
    'volatile.last_state.power': 'STOPPED',
  },
  expanded_devices: {
    eth0: { name: 'eth0', network: 'lxdbr0', type: 'nic', 'ipv4.address': '10.1.2.3' },
    http: { type: 'proxy', listen: 'tcp:0.0.0.0:8080', connect: 'tcp:10.1.2.3:80' },
    root: { path: '/', pool: 'default', size: '10GiB', type: 'disk' },
  },
  name: 'web1',
  profiles: ['default'],
  stateful: false,
  status: 'Stopped',
  status_code: 102,
  type: 'container',
}

const withConfig = (config: object) => ({ ...instance, expanded_config: { ...instance.expanded_config, ...config } })
const withDevices = (expanded_devices: object) => ({ ...instance, expanded_devices })
const proxy = (device: object) =>
  withDevices({ p: { type: 'proxy', listen: 'tcp:0.0.0.0:8080', connect: 'tcp:10.1.2.3:80', ...device } })
const mapping = (hostPort: number, containerPort: number, more: object = {}) => ({
  protocol: 'tcp',
  hostIp: '',
  hostPort,
  containerPort,
  length: 1,
  ...more,
})

describe('the import plan for a container of LXD or Incus', () => {
  it('contains the limits, ports, addresses and user ids of the container', () => {
    const { notes, ...planned } = planLxd(instance)!
    expect(planned).to.deep.equal({
      name: 'web1',
      vcpuMilli: 2000,
      ramMb: 2048,
      diskBytes: 10 * 1024 ** 3,
      addresses: ['10.1.2.3'],
      mappings: [mapping(8080, 80)],
      devices: [],
      ids: ids(1_000_000),
    })
    expect(notes.map(({ part }) => part)).to.deep.equal(['device eth0 (nic)'])
  })

  it('can be made from a backup.yaml file', () => {
    expect(planLxd({ container: instance, pool: {} })?.name).to.equal('web1')
    expect(planLxd({ instance, version: 2 })?.name).to.equal('web1')
  })

  for (const [name, value] of [
    ['null', null],
    ['a list', [instance]],
    ['an object without a name', { config: {} }],
    ['a name that is not a text', { ...instance, name: { toString: 'x' } }],
  ] as const)
    it(`is not made from ${name}`, () => expect(planLxd(value)).to.equal(undefined))

  for (const [name, value, refusal] of [
    ['a running container', { ...instance, status: 'Running' }, 'stop the container first'],
    ['a frozen container', { ...instance, status: 'Frozen' }, 'stop the container first'],
    ['a virtual machine', { ...instance, type: 'virtual-machine' }, 'virtual machine'],
    ['a user id map that is not JSON', withConfig({ 'volatile.last_state.idmap': '[{' }), 'map of user ids'],
    [
      'a user id map with invalid entries',
      withConfig({ 'volatile.last_state.idmap': '[{"Isuid":true}]' }),
      'map of user ids',
    ],
    [
      'a user id map beyond the largest user id',
      withConfig({ 'volatile.last_state.idmap': idmap.replaceAll('1000000', '4294967290') }),
      'map of user ids',
    ],
    [
      'a user id map with line breaks',
      withConfig({ 'volatile.last_state.idmap': idmap.replaceAll('1000000', '"1 0 1\\n0 0 1"') }),
      'map of user ids',
    ],
  ] as const)
    it(`refuses ${name}`, () => expect(planLxd(value)?.refusal).to.contain(refusal))

  for (const [name, text, expected] of [
    [
      'from a range for both users and groups',
      '[{"Isuid":true,"Isgid":true,"Hostid":1000000,"Nsid":0,"Maprange":9}]',
      ids(1e6, 9),
    ],
    ['as unshifted from an empty map', '[]', undefined],
    ['as unshifted for a container that never ran', '', undefined],
    ['as unshifted for a privileged container', 'null', undefined],
  ] as const)
    it(`reads user ids ${name}`, () =>
      expect(planLxd(withConfig({ 'volatile.last_state.idmap': text }))?.ids).to.deep.equal(expected))

  it('contains a range of user ids only once if LXD lists it twice', () => {
    const one = { Isuid: true, Isgid: true, Hostid: 1000, Nsid: 0, Maprange: 1 }
    const text = JSON.stringify([one, one])
    expect(planLxd(withConfig({ 'volatile.last_state.idmap': text }))?.ids).to.deep.equal(ids(1000, 1))
  })

  for (const [config, limits] of [
    [{ 'limits.cpu': '0-3' }, { vcpuMilli: 4000, ramMb: 2048 }],
    [{ 'limits.cpu': '0,2,4-5' }, { vcpuMilli: 4000, ramMb: 2048 }],
    [{ 'limits.cpu.allowance': '50ms/100ms' }, { vcpuMilli: 500, ramMb: 2048 }],
    [{ 'limits.cpu.allowance': '900ms/100ms' }, { vcpuMilli: 2000, ramMb: 2048 }],
    [{ 'limits.cpu.allowance': '5ms/0ms' }, { vcpuMilli: 2000, ramMb: 2048 }],
    [{ 'limits.cpu': '99999999999999999999' }, { vcpuMilli: undefined, ramMb: 2048 }],
    [{ 'limits.cpu': '5-1' }, { vcpuMilli: undefined, ramMb: 2048 }],
    [{ 'limits.memory': '1GB' }, { vcpuMilli: 2000, ramMb: 954 }],
    [{ 'limits.memory': '50%' }, { vcpuMilli: 2000, ramMb: undefined }],
    [{ 'limits.memory': '9e99GiB' }, { vcpuMilli: 2000, ramMb: undefined }],
    [{ 'limits.memory': '999999999999PiB' }, { vcpuMilli: 2000, ramMb: undefined }],
  ] as const)
    it(`reads the limits ${JSON.stringify(config)}`, () => {
      const { vcpuMilli, ramMb } = planLxd(withConfig(config))!
      expect({ vcpuMilli, ramMb }).to.deep.equal(limits)
    })

  for (const [name, value, mappings] of [
    ['UDP', proxy({ listen: 'udp:0.0.0.0:53', connect: 'udp:10.1.2.3:53' }), [mapping(53, 53, { protocol: 'udp' })]],
    ['one address', proxy({ listen: 'tcp:192.0.2.1:80' }), [mapping(80, 80, { hostIp: '192.0.2.1' })]],
    ['all IPv6 addresses', proxy({ listen: 'tcp:[::]:80' }), [mapping(80, 80)]],
    [
      'a range and a single port',
      proxy({ listen: 'tcp:0.0.0.0:8000-8002,9000', connect: 'tcp:10.1.2.3:100-102,443' }),
      [mapping(8000, 100, { length: 3 }), mapping(9000, 443)],
    ],
    ['two ports to one', proxy({ listen: 'tcp:0.0.0.0:80,81' }), [mapping(80, 80), mapping(81, 80)]],
  ] as const)
    it(`maps the ports of a proxy with ${name}`, () => expect(planLxd(value)?.mappings).to.deep.equal(mappings))

  for (const [name, device] of [
    ['leads out of the container', { bind: 'instance' }],
    ['leads to a socket', { connect: 'unix:/run/app.sock' }],
    ['changes the protocol', { connect: 'udp:10.1.2.3:80' }],
    ['has a port 0', { listen: 'tcp:0.0.0.0:0' }],
    ['has a port above 65535', { listen: 'tcp:0.0.0.0:65536' }],
    ['has a reversed range', { listen: 'tcp:0.0.0.0:90-80' }],
    [
      'has different numbers of host ports and container ports',
      { listen: 'tcp:0.0.0.0:80-82', connect: 'tcp:10.1.2.3:80-81' },
    ],
    ['has a host name', { listen: 'tcp:localhost:80' }],
    ['has a line break', { listen: 'tcp:0.0.0.0:80\nx' }],
  ] as const)
    it(`omits a proxy that ${name}, and explains why`, () => {
      const { mappings, notes } = planLxd(proxy(device))!
      expect(mappings).to.deep.equal([])
      expect(notes[0]?.part).to.match(/^proxy p /)
    })

  it('contains only the devices tun and fuse, and explains why other devices and settings are omitted', () => {
    const devices = {
      tun: { type: 'unix-char', path: '/dev/net/tun' },
      fuse: { type: 'unix-char', source: '/dev/fuse', path: '/dev/other' },
      disk: { type: 'unix-char', path: '/dev/sda' },
      data: { type: 'disk', path: '/srv', source: '/etc' },
      gpu: { type: 'gpu' },
    }
    const planned = planLxd({
      ...withConfig({ 'security.privileged': 'true', 'security.nesting': 'false' }),
      expanded_devices: devices,
    })!
    expect(planned.devices).to.deep.equal(['tun', 'fuse'])
    expect(planned.notes.map(({ part }) => part)).to.deep.equal([
      'device disk (unix-char /dev/sda)',
      'device data (disk /srv)',
      'device gpu (gpu)',
      'security.privileged',
    ])
  })

  it('ignores configuration values that are lists or objects', () => {
    const planned = planLxd({ ...instance, expanded_config: { 'limits.cpu': ['2'], 'limits.memory': { a: 1 } } })!
    expect([planned.vcpuMilli, planned.ramMb]).to.deep.equal([undefined, undefined])
  })
})
