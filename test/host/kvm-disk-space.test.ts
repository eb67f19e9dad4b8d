import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { setLimits } from '../../agent/guests/settings/limits.js'
import { setSnapshotQuota } from '../../agent/guests/settings/snapshot-quota.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { plainSpec, powerOrder, reinstallOrder, resetPasswordOrder } from '../support/host/agent-calls.js'
import { BackupHost } from '../support/host/backup-host.js'
import { kvm } from '../support/guests/guest-kinds.js'
import { randomFunction } from '../support/random-data.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2
const gib = 1024 ** 3
/** Tolerance for btrfs metadata, which counts as space of the guest. 4,000 extents need less than 1 MiB of metadata. */
const treesMib = 8
const [imageMib, imageDataMib] = [64, 8]

const bash = (script: string, ...args: string[]): string =>
  execFileSync('/bin/bash', ['-euo', 'pipefail', '-c', randomFunction + script, 'bash', ...args], { encoding: 'utf8' })

const randomAt = (seekMib: number, megabytes: number): string =>
  `random ${megabytes}M | dd of="$1" bs=1M seek=${seekMib} iflag=fullblock conv=notrunc oflag=direct status=none`

interface Disk {
  /** Amount of data that is not zero, in MiB. */
  readonly dataMib: number
  /** Size of allocated blocks in MiB. Default: `dataMib`. It differs if parts of the disk share their blocks. */
  readonly blocksMib?: number
  /** All data is in the first `usedMib` MiB of the disk. */
  readonly usedMib: number
  /** Script that fills the disk. Its argument is the path of the disk. */
  readonly fill: string
}

/** Disks in various states, which a guest can create. */
const disks: Readonly<Record<string, Disk>> = {
  empty: { dataMib: 0, usedMib: 64, fill: ':' },
  sparse: {
    dataMib: 12,
    usedMib: 304,
    fill: `${[70, 300, 1020].map((at) => randomAt(at, 4)).join('; ')}
      fallocate --punch-hole --offset 301M --length 64K "$1"`,
  },
  'filled with written zeros': {
    dataMib: 4,
    usedMib: 140,
    fill: `${randomAt(70, 4)}; dd if=/dev/zero of="$1" bs=1M seek=80 count=60 conv=notrunc status=none`,
  },
  'made up of reflinked copies of one block range': {
    dataMib: 8,
    blocksMib: 41 * 8,
    usedMib: 428,
    fill: `${randomAt(70, 8)}
      perl -e 'open(my $disk, "+<", $ARGV[0]) or die;
        for my $copy (1 .. 40) {
          ioctl($disk, 0x4020940D, pack("q Q3", fileno $disk, 70 << 20, 8 << 20, (100 + $copy * 8) << 20)) or die "$!";
        }' "$1"`,
  },
  'written in many small pieces': {
    dataMib: 16,
    usedMib: 112,
    fill: `perl -e 'open(my $disk, "+<", $ARGV[0]) or die;
        for my $at (map { ($_ * 7919) % 4000 } 0 .. 3999) {
          sysseek($disk, (80 << 20) + $at * 8192, 0);
          syswrite($disk, pack("N", $at) x 1024) == 4096 or die;
        }' "$1"; sync -d "$1"`,
  },
  // The data repeats every 64 MiB, but shares no blocks. restic would need a minute to encrypt 1 GiB of different data.
  full: {
    dataMib: 1024 - imageDataMib,
    usedMib: 1024,
    fill: `${randomAt(0, 64)}
      for at in $(seq 64 64 960); do
        dd if="$1" of="$1" bs=1M count=64 seek=$at iflag=direct oflag=direct conv=notrunc status=none
      done`,
  },
}

/** The guests are stopped. The test writes to their disks, as QEMU does. */
describe('disks of virtual machines', function () {
  const scratch = scratchDirectory('btest-kds-targets')
  let host: BackupHost
  let other: string
  let target: BackupTarget
  let guests = 0

  before(async () => {
    host = await BackupHost.open('kds', [{ ...kvm, installImage }])
    const place = { $case: 'local', value: { path: join(scratch.path, 'local') } } as const
    mkdirSync(place.value.path)
    target = { id: randomUUID(), name: 'vault', password: 'of-the-vault-1', verifyPercent: 0, place }
    other = await create(2)
    bash(randomAt(10, 20), diskOf(other))
  })
  after(async () => {
    await host?.close()
    scratch.wipe()
  })

  async function installImage(pool: string): Promise<void> {
    const image = join(pool, 'images/debian-12-kvm')
    sh('btrfs', '-q', 'subvolume', 'create', image)
    sh('chattr', '+C', image)
    sh('truncate', '-s', `${imageMib}M`, join(image, 'disk.raw'))
    bash(randomAt(1, imageDataMib), join(image, 'disk.raw'))
    sh('btrfs', 'property', 'set', '-ts', image, 'ro', 'true')
  }

  async function create(diskGb = 1): Promise<string> {
    const limits = { ...plainSpec.limits!, diskGb }
    return host.addGuest(++guests, `vm-${guests}`, { ...kvm.spec, limits, start: false })
  }
  const diskOf = (uuid: string): string => join(host.rootOf(uuid), 'disk.raw')
  const idOf = (uuid: string): unknown =>
    (JSON.parse(readFileSync(join(host.rootOf(uuid), 'instance.json'), 'utf8')) as { id: unknown }).id
  const allocatedMib = (uuid: string): number => (lstatSync(diskOf(uuid)).blocks * 512) / mib
  const retainedMib = (uuid: string): number => host.record(uuid).snapshotSpace.retainedBytes / mib
  const snapshot = async (uuid: string): Promise<string> =>
    (await host.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })).id
  const restoreOrder = (uuid: string, backupId: string, sourceUuid: string) =>
    ({ $case: 'backupRestore', value: { uuid, target, backupId, sourceUuid } }) as const
  const restored = (...order: Parameters<typeof restoreOrder>) => host.done(restoreOrder(...order))
  const parts = () => ({ context: host.domain.context, capacity: host.domain.capacity })
  /** Copies the disk to a place outside the pool, where the copy uses no space of the guest. */
  function keep(uuid: string): string {
    const copy = join(scratch.path, uuid)
    sh('cp', '--sparse=always', diskOf(uuid), copy)
    return copy
  }
  const expectSame = (uuid: string, copy: string): unknown =>
    sh('cmp', '-n', `${lstatSync(copy).size}`, diskOf(uuid), copy)

  /** Waits until the space that counts for a guest is in this range. Deleted volumes still count for a while. */
  async function expectCounted(uuid: string, lowMib: number, highMib: number): Promise<void> {
    let found = NaN
    const isWithin = async (): Promise<boolean> => {
      sh('btrfs', 'filesystem', 'sync', host.config.storage.pool)
      found = ((await host.host.volumes.usage([uuid])).get(uuid) ?? NaN) / mib
      return found >= lowMib && found <= highMib
    }
    await waitFor(isWithin, {
      what: () => `${lowMib} to ${highMib} MiB counted, there are ${found}`,
    })
  }

  /** Overwrites the beginning of the disk, as the system of the guest can. */
  async function rewrite(uuid: string, megabytes: number): Promise<void> {
    expect(lstatSync(diskOf(uuid)).size).to.equal(gib)
    bash(
      `yes | dd of="$1" bs=1M count=${megabytes} iflag=fullblock conv=notrunc oflag=direct status=none || [ $? = 141 ]`,
      diskOf(uuid),
    )
    await expectCounted(uuid, megabytes, allocatedMib(uuid) + retainedMib(uuid) + treesMib)
  }

  /** Expects that the disk has the content of the copy, its full size, and the given number of allocated MiB. */
  function expectWhole(uuid: string, copy: string, megabytes: number): void {
    expectSame(uuid, copy)
    expect(allocatedMib(uuid)).to.be.within(megabytes - 1, megabytes + 1)
    const { mode, uid, size } = lstatSync(diskOf(uuid))
    expect([mode & 0o777, uid]).to.deep.equal([0o600, 0])
    expect(size).to.be.at.least(lstatSync(copy).size)
    expect(sh('lsattr', diskOf(uuid))).to.match(/^\S*C/)
    expect(readdirSync(host.rootOf(uuid)).sort()).to.deep.equal(['disk.raw', 'instance.json'])
    expect(host.record(uuid)).to.include({ status: 'stopped', fetchedBytes: 0, extraBytes: 0 })
  }

  for (const [name, disk] of Object.entries(disks))
    describe(`${name}`, () => {
      const others = Math.min(imageDataMib, 1024 - disk.dataMib)
      const dataMib = disk.dataMib + others
      const blocksMib = (disk.blocksMib ?? disk.dataMib) + others
      let uuid: string
      let content: string
      let backupId: string

      before(async () => {
        uuid = await create()
        bash(disk.fill, diskOf(uuid))
        content = keep(uuid)
        backupId = await host.backUp(uuid, target)
      })
      after(async () => {
        await host.done({ $case: 'backupDelete', value: { uuid, target, backupId } })
        await host.isClean()
        await host.done(powerOrder('delete', uuid).order!)
      })

      it('are restored completely from a backup, both onto a guest with a snapshot and onto a new guest', async () => {
        const [kept, fresh] = [await snapshot(other), await create()]
        const guests = [other, fresh]
        await Promise.all(guests.map((guest) => restored(guest, backupId, uuid)))
        for (const guest of guests) {
          expectWhole(guest, content, blocksMib)
          await expectCounted(guest, dataMib - 1, retainedMib(guest) + dataMib + treesMib)
        }
        expect(new Set([uuid, ...guests].map(idOf))).to.have.property('size', 3)
        await host.done(powerOrder('delete', fresh).order!)
        await host.done({ $case: 'snapshotDelete', value: { uuid: other, snapshotId: kept } })
      })

      it('are restored completely after they were overwritten, even if the guest has several snapshots', async () => {
        const snapshots: string[] = []
        await rewrite(uuid, disk.usedMib)
        await restored(uuid, backupId, uuid)
        expectWhole(uuid, content, blocksMib)
        await expectCounted(uuid, dataMib - 1, dataMib + treesMib)
        for (let i = 0; i < 3; i++) {
          snapshots.push(await snapshot(uuid))
          bash(randomAt(20 + i, 1), diskOf(uuid))
        }
        await rewrite(uuid, disk.usedMib)
        await restored(uuid, backupId, uuid)
        expectWhole(uuid, content, blocksMib)
        await expectCounted(uuid, dataMib - 1, retainedMib(uuid) + dataMib + treesMib)
        bash(randomAt(20, 1), diskOf(uuid))
        await host.done({ $case: 'snapshotRestore', value: { uuid, snapshotId: snapshots[0]! } })
        expectSame(uuid, content)
        for (const snapshotId of snapshots) await host.done({ $case: 'snapshotDelete', value: { uuid, snapshotId } })
        expect(retainedMib(uuid)).to.equal(0)
        await expectCounted(uuid, dataMib - 1, dataMib + treesMib)
      })

      it('can be enlarged and reinstalled despite a snapshot, and allow a password reset', async () => {
        const snapshotId = await snapshot(uuid)
        await host.done(resetPasswordOrder(uuid).order!)
        await setLimits(parts().context, { uuid, ifRevision: 0 }, { wanted: { diskGb: 2 }, ...parts() })
        expect(lstatSync(diskOf(uuid)).size).to.equal(2 * gib)
        expectSame(uuid, content)
        await host.done(reinstallOrder(uuid).order!)
        expectSame(uuid, join(host.config.storage.pool, 'images/debian-12-kvm/disk.raw'))
        expect([allocatedMib(uuid), lstatSync(diskOf(uuid)).size]).to.deep.equal([imageDataMib, 2 * gib])
        await host.done({ $case: 'snapshotDelete', value: { uuid, snapshotId } })
        await expectCounted(uuid, 0, treesMib)
      })
    })

  it('cannot have more snapshots than the space limit allows', async () => {
    const uuid = await create()
    await setSnapshotQuota(parts(), { uuid, ifRevision: 0 }, { spaceBytes: gib })
    bash(randomAt(0, 600), diskOf(uuid))
    await snapshot(uuid)
    bash(randomAt(0, 600), diskOf(uuid))
    sh('btrfs', 'filesystem', 'sync', host.config.storage.pool)
    expect(await refusal(snapshot(uuid))).to.match(/^snapshot_space_exceeded: /)
    expect(await host.host.volumes.listSnapshots(uuid)).to.have.length(1)
    await rewrite(uuid, 1024)
    await host.done(powerOrder('delete', uuid).order!)
  })

  it('cannot be restored from the backup of a larger disk', async () => {
    const uuid = await create()
    const id = await host.backUp(other, target)
    const { errorCode, error } = await host.carryOut(restoreOrder(uuid, id, other))
    expect([errorCode, error]).to.deep.equal(['disk_too_small', 'disk_gb: the disk of the backup needs at least 2 GB'])
    await host.done(powerOrder('delete', uuid).order!)
  })
})
