import { expect } from 'chai'
import type { Machine } from '../machine.js'
import { planConfig, type ConfigFacts } from './plan-config.js'

const machine: Machine = {
  uuid: '0f8fad5b-d9cb-469f-a165-70867728950e',
  id: 17,
  hostname: 'web-1',
  volume: '/pool/guests/x',
  limits: {
    vcpuMilli: 500,
    memoryBytes: 536_870_912,
    swapBytes: 268_435_456,
    diskBytes: 10_737_418_240,
    ioReadBytesPerSec: 0,
    ioWriteBytesPerSec: 0,
  },
  isolation: { userIdBase: 1_000_000, pidsMax: 1024 },
  nic: {
    device: 'bt17',
    bridge: 'berth0',
    mac: '02:00:0a:40:00:11',
    ipv4: '10.64.0.17',
    prefixLength: 16,
    gateway: '10.64.0.1',
    ipv6Addresses: [],
    gateway6: 'fe80::1',
  },
  resolvers: ['9.9.9.9'],
}

const facts: ConfigFacts = {
  name: 'bt-17',
  cgroupVersion: 1,
  swapAccounting: true,
  socketAccounting: true,
  cpusets: true,
  poolDevice: '7:0',
  lxcfsEntries: [],
  lxcfsDir: '/var/lib/lxcfs',
  seccompProfile: '/state/seccomp',
  commandLine: '/state/cmdline',
  hierarchies: {
    hierarchies: ['/sys/fs/cgroup/pids', '/sys/fs/cgroup/cpu,cpuacct', '/sys/fs/cgroup/unified'],
    unified: '/sys/fs/cgroup/unified',
  },
  addressesHook: '/state/addresses',
  mendHook: '/state/mend',
  groupsHook: '/state/groups',
  stoppedHook: '/state/hook',
  marksDir: '/run/marks',
  lxcPath: '/state/lxc',
  pivotGroup: 'lxc.pivot.bt',
  devicesDir: '/state/devices',
  apparmor: false,
  openFilesMax: 524_288,
}

const withLimits = (change: Partial<Machine['limits']>): Machine => ({
  ...machine,
  limits: { ...machine.limits, ...change },
})
const withIsolation = (change: Partial<Machine['isolation']>): Machine => ({
  ...machine,
  isolation: { ...machine.isolation, ...change },
})
const withNic = (change: Partial<Machine['nic']>): Machine => ({
  ...machine,
  nic: { ...machine.nic, ...change },
})

describe('the plan of the LXC configuration of a guest', () => {
  it('contains all lines in a fixed order', () => {
    expect(planConfig(machine, facts)).to.deep.equal([
      '# uuid 0f8fad5b-d9cb-469f-a165-70867728950e',
      'lxc.uts.name = web-1',
      'lxc.idmap = u 0 1000000 65536',
      'lxc.idmap = g 0 1000000 65536',
      'lxc.rootfs.path = dir:/pool/guests/x',
      'lxc.rootfs.options = idmap=container,nodev',
      'lxc.console.buffer.size = 256KB',
      'lxc.tty.max = 1',
      'lxc.pty.max = 1024',
      'lxc.start.auto = 0',
      'lxc.cap.drop = mac_admin mac_override sys_time sys_module sys_rawio',
      'lxc.seccomp.profile = /state/seccomp',
      'lxc.seccomp.allow_nesting = 1',
      'lxc.prlimit.nofile = 1024:524288',
      'lxc.proc.oom_score_adj = 0',
      'lxc.mount.auto = proc:mixed sys:mixed',
      'lxc.mount.entry = cgroup2 sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0',
      'lxc.mount.entry = /state/cmdline proc/cmdline none bind,ro,optional 0 0',
      'lxc.net.0.type = veth',
      'lxc.net.0.name = eth0',
      'lxc.net.0.flags = up',
      'lxc.net.0.veth.pair = bt17',
      'lxc.net.0.link = berth0',
      'lxc.net.0.hwaddr = 02:00:0a:40:00:11',
      'lxc.net.0.ipv4.address = 10.64.0.17/16 10.64.255.255',
      'lxc.net.0.ipv4.gateway = 10.64.0.1',
      'lxc.cgroup.relative = 0',
      'lxc.cgroup.dir.monitor = lxc.monitor.bt-17',
      'lxc.cgroup.dir.container = lxc.payload.bt-17',
      'lxc.cgroup.dir.monitor.pivot = lxc.pivot.bt',
      'lxc.cgroup.devices.deny = a',
      'lxc.cgroup2.cgroup.max.descendants = 512',
      'lxc.cgroup2.cgroup.max.depth = 64',
      'lxc.cgroup.devices.allow = c 1:3 rwm',
      'lxc.cgroup.devices.allow = c 1:5 rwm',
      'lxc.cgroup.devices.allow = c 1:7 rwm',
      'lxc.cgroup.devices.allow = c 1:8 rwm',
      'lxc.cgroup.devices.allow = c 1:9 rwm',
      'lxc.cgroup.devices.allow = c 5:0 rwm',
      'lxc.cgroup.devices.allow = c 5:1 rwm',
      'lxc.cgroup.devices.allow = c 5:2 rwm',
      'lxc.cgroup.devices.allow = c 136:* rwm',
      'lxc.cgroup.memory.limit_in_bytes = 536870912',
      'lxc.cgroup.memory.memsw.limit_in_bytes = 805306368',
      'lxc.cgroup.memory.kmem.tcp.limit_in_bytes = 67108864',
      'lxc.cgroup.cpu.cfs_period_us = 100000',
      'lxc.cgroup.cpu.cfs_quota_us = 50000',
      'lxc.cgroup.cpu.shares = 512',
      'lxc.cgroup.pids.max = 1024',
      'lxc.hook.version = 1',
      'lxc.hook.start-host = /state/groups /sys/fs/cgroup/unified/lxc.payload.bt-17 /sys/fs/cgroup/pids/lxc.payload.bt-17 /sys/fs/cgroup/pids/lxc.payload.bt-17/cgroup.procs /sys/fs/cgroup/pids/lxc.payload.bt-17/tasks /sys/fs/cgroup/cpu,cpuacct/lxc.payload.bt-17 /sys/fs/cgroup/cpu,cpuacct/lxc.payload.bt-17/cgroup.procs /sys/fs/cgroup/cpu,cpuacct/lxc.payload.bt-17/tasks',
      'lxc.hook.post-stop = /state/hook /run/marks /state/lxc bt-17',
    ])
  })

  for (const [name, of, on, expected] of [
    [
      'cgroup v2',
      machine,
      { cgroupVersion: 2 },
      [
        'lxc.cgroup2.memory.max = 536870912',
        'lxc.cgroup2.memory.swap.max = 268435456',
        'lxc.cgroup2.cpu.max = 50000 100000',
        'lxc.cgroup2.cpu.weight = 50',
        'lxc.cgroup2.pids.max = 1024',
        'lxc.cgroup2.cgroup.max.descendants = 512',
        'lxc.cgroup2.cgroup.max.depth = 64',
      ],
    ],
    [
      'a guest with the prefix length /20',
      withNic({ prefixLength: 20 }),
      {},
      ['lxc.net.0.ipv4.address = 10.64.0.17/20 10.64.15.255'],
    ],
    [
      'a guest with the prefix length /32',
      withNic({ prefixLength: 32 }),
      {},
      ['lxc.net.0.ipv4.address = 10.64.0.17/32 10.64.0.17'],
    ],
    ['a guest without IPv6', machine, {}, ['!/state/addresses']],
    [
      'a guest with IPv6',
      withNic({ ipv6Addresses: ['2001:db8::5', 'fd00::1'] }),
      {},
      [
        "lxc.hook.start-host = /state/addresses 'address add 2001:db8::5/128 dev eth0 nodad' " +
          "'address add fd00::1/128 dev eth0 nodad preferred_lft 0' 'route add default via fe80::1 dev eth0'",
      ],
    ],
    ['a host without swap accounting', machine, { swapAccounting: false }, ['!lxc.cgroup.memory.memsw']],
    ['unlimited I/O (no line for the I/O controller)', machine, {}, ['!lxc.cgroup.blkio']],
    [
      'limited I/O',
      withLimits({ ioReadBytesPerSec: 1_000_000 }),
      {},
      [
        'lxc.cgroup.blkio.throttle.read_bps_device = 7:0 1000000',
        'lxc.cgroup.blkio.throttle.write_bps_device = 7:0 0',
        'lxc.cgroup.blkio.throttle.read_iops_device = 7:0 0',
        'lxc.cgroup.blkio.throttle.write_iops_device = 7:0 0',
      ],
    ],
    [
      'limited I/O with cgroup v2',
      withLimits({ ioWriteBytesPerSec: 2_000_000 }),
      { cgroupVersion: 2 },
      ['lxc.cgroup2.io.max = 7:0 rbps=max wbps=2000000 riops=max wiops=max'],
    ],
    [
      'a processor limit below the kernel’s minimum of 1 ms',
      withLimits({ vcpuMilli: 1 }),
      {},
      ['lxc.cgroup.cpu.cfs_quota_us = 1000'],
    ],
    [
      'a host with AppArmor',
      machine,
      { apparmor: true },
      ['lxc.apparmor.profile = generated', 'lxc.apparmor.allow_nesting = 0'],
    ],
    ['a host without AppArmor', machine, {}, ['!lxc.apparmor']],
    [
      'a host with lxcfs',
      machine,
      { lxcfsEntries: ['proc/meminfo'] },
      ['lxc.mount.entry = /var/lib/lxcfs/proc/meminfo proc/meminfo none bind,optional 0 0'],
    ],
    [
      'assigned processors',
      { ...machine, limits: { ...machine.limits, cpus: [0, 1, 4] } },
      {},
      ['lxc.cgroup.cpuset.cpus = 0-1,4'],
    ],
    [
      'assigned processors with cgroup v2',
      { ...machine, limits: { ...machine.limits, cpus: [3] } },
      { cgroupVersion: 2 },
      ['lxc.cgroup2.cpuset.cpus = 3'],
    ],
    [
      'assigned processors on a host without the cpuset controller',
      { ...machine, limits: { ...machine.limits, cpus: [3] } },
      { cpusets: false },
      ['!cpuset'],
    ],
    ['a host without lxcfs', machine, {}, ['!/var/lib/lxcfs']],
    ['a guest without extra devices', machine, { apparmor: true }, ['!10:200', '!10:229', '!/state/devices', '!fuse']],
    [
      'the device tun',
      { ...machine, devices: ['tun'] },
      {},
      [
        'lxc.cgroup.devices.allow = c 10:200 rwm',
        'lxc.mount.entry = /state/devices/tun dev/net/tun none bind,create=file,optional 0 0',
        '!10:229',
      ],
    ],
    [
      'the device fuse (with a line that lets AppArmor permit fuse mounts)',
      { ...machine, devices: ['fuse'] },
      { apparmor: true },
      [
        'lxc.cgroup.devices.allow = c 10:229 rwm',
        'lxc.mount.entry = /state/devices/fuse dev/fuse none bind,create=file,optional 0 0',
        'lxc.apparmor.raw = mount fstype=fuse,',
        '!10:200',
      ],
    ],
    [
      'a host whose LXC cannot mount volumes with the ids of a shared user namespace',
      machine,
      { mountPoint: '/state/volume' },
      ['# volume /pool/guests/x', 'lxc.rootfs.path = dir:/state/volume', '!lxc.rootfs.options'],
    ],
    [
      'a host without v1 hierarchies',
      machine,
      { hierarchies: { hierarchies: ['/sys/fs/cgroup'], unified: '/sys/fs/cgroup' } },
      ['!lxc.hook.start-host'],
    ],
    [
      'cgroup v2 with a v1 hierarchy of systemd (read-only for the guest)',
      machine,
      {
        cgroupVersion: 2,
        hierarchies: { hierarchies: ['/sys/fs/cgroup/systemd', '/x'], unified: '/x' },
      },
      [
        'lxc.hook.start-host = /state/groups /x/lxc.payload.bt-17 ' +
          ['', '/cgroup.procs', '/tasks'].map((file) => `/sys/fs/cgroup/systemd/lxc.payload.bt-17${file}`).join(' '),
      ],
    ],
  ] as const)
    it(`contains the right lines for ${name}`, () => {
      const lines = planConfig(of, { ...facts, ...on })
      for (const line of expected)
        if (line.startsWith('!')) expect(lines.join('\n')).to.not.contain(line.slice(1))
        else expect(lines).to.include(line)
    })

  for (const [name, of, on] of [
    ['a newline in the host name', { ...machine, hostname: 'a\nlxc.hook.start = /x' }, {}],
    ['a host name in upper case', { ...machine, hostname: 'A' }, {}],
    ['a host name of 64 characters', { ...machine, hostname: 'a'.repeat(64) }, {}],
    ['a uuid with a path', { ...machine, uuid: '../../etc' }, {}],
    ['guest user ids that overlap the user ids of the host', withIsolation({ userIdBase: 0 }), {}],
    ['a fraction as first user id', withIsolation({ userIdBase: 1_000_000.5 }), {}],
    ['a space in the device name', withNic({ device: 'a b' }), {}],
    ['a device name of 16 characters', withNic({ device: 'a'.repeat(16) }), {}],
    ['an incomplete MAC address', withNic({ mac: '02:00' }), {}],
    ['an IPv6 address instead of an IPv4 address', withNic({ ipv4: '::1' }), {}],
    ['a newline after the gateway', withNic({ gateway: '10.0.0.1\n' }), {}],
    ['an IPv4 address instead of an IPv6 address', withNic({ ipv6Addresses: ['10.0.0.1'] }), {}],
    ['a prefix length in an IPv6 address', withNic({ ipv6Addresses: ['2001:db8::5/64'] }), {}],
    ['a quote in an IPv6 address', withNic({ ipv6Addresses: ["2001:db8::5';reboot'"] }), {}],
    ['a newline in an IPv6 address', withNic({ ipv6Addresses: ['2001:db8::5\nlxc.hook.start = /x'] }), {}],
    ['a zone in the IPv6 gateway', withNic({ ipv6Addresses: ['2001:db8::5'], gateway6: 'fe80::1%eth0' }), {}],
    ['the prefix length 33', withNic({ prefixLength: 33 }), {}],
    ['a memory limit of NaN', withLimits({ memoryBytes: Number.NaN }), {}],
    ['an infinite memory limit', withLimits({ memoryBytes: Number.POSITIVE_INFINITY }), {}],
    ['a negative swap limit', withLimits({ swapBytes: -1 }), {}],
    ['a limit of 0 processes', withIsolation({ pidsMax: 0 }), {}],
    ['a shell command in a path', machine, { stoppedHook: '/state/$(reboot)' }],
    ['a space in a path', { ...machine, volume: '/pool/a b' }, {}],
    ['a relative path', { ...machine, volume: 'relative' }, {}],
    ['an lxcfs entry with a space and a newline', machine, { lxcfsEntries: ['proc/x none\nlxc'] }],
  ] as const)
    it(`refuses ${name}`, () => {
      expect(() => planConfig(of, { ...facts, ...on })).to.throw()
    })
})
