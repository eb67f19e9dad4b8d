import { expect } from 'chai'
import { planProxmox, planRootPath } from './plan-proxmox.js'

const config = `#Web server\\: do not stop
arch: amd64
cores: 2
features: nesting=1
hostname: web1.example.com
memory: 2048
mp0: local-zfs:subvol-100-disk-1,mp=/srv,size=20G
net0: name=eth0,bridge=vmbr0,firewall=1,gw=192.0.2.1,hwaddr=BC:24:11:00:00:01,ip=192.0.2.10/24,rate=12.5,type=veth
onboot: 1
ostype: debian
rootfs: local-zfs:subvol-100-disk-0,size=8G
swap: 512
unprivileged: 1

[before-upgrade]
#a snapshot
memory: 64
rootfs: other:subvol-100-disk-0,size=1G
`

const with1 = (line: string): string => config.replace('ostype: debian', line)
const shifted = (first: number) => [{ first, shown: 0, count: 65_536 }]

describe('the import plan for a container of Proxmox', () => {
  it('contains the limits, addresses and user ids of the container', () => {
    const { notes, ...planned } = planProxmox(config)!
    expect(planned).to.deep.equal({
      name: 'web1.example.com',
      rootVolume: 'local-zfs:subvol-100-disk-0',
      vcpuMilli: 2000,
      ramMb: 2048,
      diskBytes: 8 * 1024 ** 3,
      networkMbps: 100,
      addresses: ['192.0.2.10'],
      mappings: [],
      devices: [],
      ids: { users: shifted(100_000), groups: shifted(100_000) },
    })
    expect(notes.map(({ part }) => part.split(' ')[0])).to.deep.equal(['features', 'mp0', 'onboot', 'swap'])
  })

  it('contains 512 MB of memory and unshifted user ids by default', () => {
    const { ramMb, ids, vcpuMilli } = planProxmox('rootfs: /srv/ct,size=4G\n')!
    expect({ ramMb, ids, vcpuMilli }).to.deep.equal({ ramMb: 512, ids: undefined, vcpuMilli: undefined })
  })

  it('uses the user id map in the configuration', () => {
    const lines = 'lxc.idmap: u 0 200000 65536\nlxc.idmap: g 0 200000 65536'
    expect(planProxmox(with1(lines))?.ids).to.deep.equal({ users: shifted(200_000), groups: shifted(200_000) })
  })

  for (const [name, text] of [
    ['an empty file', ''],
    ['a file without a root file system', 'cores: 1\n'],
    ['a root file system only in a snapshot', '[one]\nrootfs: local:1\n'],
  ] as const)
    it(`is not made from ${name}`, () => expect(planProxmox(text)).to.equal(undefined))

  for (const [name, line, refusal] of [
    ['a locked container', 'lock: backup', 'locked it (backup)'],
    ['a template', 'template: 1', 'template'],
    ['a user id map with invalid entries', 'lxc.idmap: u 0 -1 65536', 'map of user ids'],
    ['a user id map beyond the largest user id', 'lxc.idmap: u 0 4294967295 2\nlxc.idmap: g 0 1 1', 'map of user ids'],
    ['a user id map without groups', 'lxc.idmap: u 0 100000 65536', 'map of user ids'],
  ] as const)
    it(`refuses ${name}`, () => expect(planProxmox(with1(line))?.refusal).to.contain(refusal))

  for (const [line, vcpuMilli] of [
    ['cpulimit: 0.5', 500],
    ['cpulimit: 0', 2000],
    ['cpulimit: 99999999999', 2000],
  ] as const)
    it(`contains ${vcpuMilli / 1000} processors if the configuration contains "${line}"`, () =>
      expect(planProxmox(with1(line))?.vcpuMilli).to.equal(vcpuMilli))

  it('contains only the devices tun and fuse', () => {
    const lines = 'dev0: path=/dev/net/tun,mode=0666\ndev1: /dev/sda'
    const { devices, notes } = planProxmox(with1(lines).replace('nesting=1', 'fuse=1,nesting=1'))!
    expect(devices).to.deep.equal(['fuse', 'tun'])
    expect(notes.map(({ part }) => part))
      .to.include('dev1 /dev/sda')
      .and.not.include('dev0 /dev/net/tun')
  })
})

const storages = `dir: local
	path /var/lib/vz
	content iso,vztmpl,rootdir

lvmthin: local-lvm
	thinpool data
	vgname pve

zfspool: local-zfs
	pool rpool/data
	sparse

zfspool: tank
	pool tank/ct
	mountpoint /mnt/tank

btrfs: fast
	path /mnt/fast
`

describe('the directory of a Proxmox container’s root file system', () => {
  for (const [volume, path] of [
    ['local-zfs:subvol-100-disk-0', '/rpool/data/subvol-100-disk-0'],
    ['tank:subvol-100-disk-0', '/mnt/tank/subvol-100-disk-0'],
    ['local:100/subvol-100-disk-0.subvol', '/var/lib/vz/images/100/subvol-100-disk-0.subvol'],
    ['fast:100/subvol-100-disk-0.subvol', '/mnt/fast/images/100/subvol-100-disk-0.subvol'],
    ['/srv/ct100', '/srv/ct100'],
    ['local:100/vm-100-disk-0.raw', undefined],
    ['local-lvm:vm-100-disk-0', undefined],
    ['missing:subvol-100-disk-0', undefined],
    ['local-zfs:../../etc', undefined],
    ['local-zfs:subvol-100-disk-0/../../etc', undefined],
    ['../etc:subvol-100-disk-0', undefined],
  ] as const)
    it(`is ${path ?? 'unknown'} for the volume ${volume}`, () =>
      expect(planRootPath(volume, 100, storages)).to.equal(path))
})
