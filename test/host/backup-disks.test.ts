import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { parseSnapshots, planTags } from '../../agent/backups/plan-restic.js'
import { powerOrder } from '../support/host/agent-calls.js'
import { BackupHost } from '../support/host/backup-host.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { lxc } from '../support/guests/guest-kinds.js'
import { randomFunction } from '../support/random-data.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2
const limitBytes = 1024 * mib
/** Tolerance for the free space, because btrfs needs a different amount of metadata each time. */
const slackBytes = 6 * mib
const imageMib = 64

/** Scripts that fill a directory on the disk of a guest, each with a name for the content. */
const disks: readonly (readonly [string, string])[] = [
  ['with no files except those of its image', ':'],
  [
    'with reflinks, hard links, sparse and compressed files',
    `random 100M >data; for i in 1 2 3 4; do cp --reflink=always data copy$i; done
     dd if=/dev/urandom of=copy4 bs=1M count=2 seek=40 conv=notrunc status=none; echo end >>copy4
     for at in 1 100 300; do dd if=/dev/urandom of=sparse bs=4k count=10 seek=$((at * 256)) conv=notrunc status=none; done
     truncate -s 500M sparse; ln data hard
     mkdir packed; btrfs property set packed compression zstd; yes words | head -c 300M >packed/text
     cp --reflink=always packed/text packed/copy; cp -r --reflink=always ../usr image-copy
     mkdir $'new\\nline'; truncate -s 200M $'new\\nline/disk'; touch -d @1.123456789 copy4 sparse packed/text`,
  ],
  [
    'that is completely full with data and small files',
    `random 900M >data
     perl -e 'for my $i (1 .. 300000) { mkdir "d$1" if $i =~ /^(\\d+)000$/; open(my $f, ">", "d$1/$i") or exit; print $f "x" x 1500 }'`,
  ],
]

/** Tests real backups of real volumes. The guests do not run. */
describe('a backup of a disk', function () {
  const scratch = scratchDirectory('btest-gbd-targets')
  let host: BackupHost
  let guest: string
  let other: string
  let target: BackupTarget

  before(async () => {
    host = await BackupHost.open('gbd', [{ ...lxc, installImage: installImage }])
    guest = await host.addGuest(1, 'kept')
    other = await host.addGuest(2, 'other')
    for (const uuid of [guest, other]) await host.done(powerOrder('stop', uuid).order!)
    const place = { $case: 'local', value: { path: join(scratch.path, 'local') } } as const
    mkdirSync(place.value.path)
    target = { id: randomUUID(), name: 'vault', password: 'of-the-vault-1', verifyPercent: 0, place }
  })
  after(async () => {
    await host?.close()
    scratch.wipe()
  })

  async function installImage(pool: string): Promise<void> {
    await installBusyboxImage(pool, 'debian-12')
    const image = join(pool, 'images/debian-12')
    sh('btrfs', 'property', 'set', '-ts', image, 'ro', 'false')
    writeFileSync(join(image, 'usr/program'), randomBytes(imageMib * mib))
    sh('btrfs', 'property', 'set', '-ts', image, 'ro', 'true')
  }

  const restore = (uuid: string, backupId: string) =>
    host.carryOut({ $case: 'backupRestore', value: { uuid, target, backupId, sourceUuid: guest } })

  /** Number of bytes that the guest can still write. It is negative if the guest exceeds its limit. */
  async function freeBytes(uuid: string): Promise<number> {
    sh('btrfs', 'filesystem', 'sync', host.config.storage.pool)
    const used = (await host.host.volumes.usage()).get(uuid) ?? 0
    return limitBytes + host.record(uuid).extraBytes - used
  }

  async function expectFree(uuid: string, bytes: number): Promise<void> {
    let found = 0
    const isAsMuch = async (): Promise<boolean> => (found = await freeBytes(uuid)) > bytes - slackBytes
    await waitFor(isAsMuch, { what: () => `${bytes} bytes free, there are ${found}` })
    if (bytes > 50 * mib) expect(found).to.be.below(bytes + slackBytes)
  }

  function fill(script: string): void {
    const data = join(host.rootOf(guest), 'data')
    rmSync(data, { recursive: true, force: true })
    mkdirSync(data)
    spawnSync('/bin/bash', ['-c', randomFunction + script], { cwd: data, stdio: 'ignore' }) // the script fails if it fills the disk
    sh('sync', '-f', data)
  }

  /** Describes the contents, times, links and sizes of the files that the script created. */
  function describeData(uuid: string): string {
    const list = `find . -printf '%p %y %s %m %T@ %n\\n' | grep -v ' d ' | sort; find . -type f -print0 | sort -z | xargs -0 -r cat | openssl dgst -sha256`
    return execFileSync('/bin/bash', ['-c', list], {
      cwd: join(host.rootOf(uuid), 'data'),
      encoding: 'utf8',
      maxBuffer: 1 << 30,
    })
  }

  for (const [name, script] of disks)
    it(`${name} can be restored onto its own or another guest, and leaves as much free space as the original disk`, async () => {
      fill(script)
      const [before, data] = [await freeBytes(guest), describeData(guest)]
      const id = await host.backUp(guest, target)
      for (const uuid of [guest, other]) {
        const { status, error } = await restore(uuid, id)
        expect(status, error).to.equal('done')
        expect(describeData(uuid) === data, 'the same data').to.equal(true)
        await expectFree(uuid, before)
        const bounds = new Map([[uuid, limitBytes + host.record(uuid).extraBytes]])
        expect(await host.host.volumes.ensureLimits(bounds)).to.deep.equal([])
      }
      await host.done({ $case: 'backupDelete', value: { uuid: guest, target, backupId: id } })
      await host.isClean()
    })

  it('is restored completely, even if snapshots of the disk retain more data than the disk contains', async () => {
    fill('random 500M >data; for i in 1 2 3 4 5; do truncate -s 120M sparse$i; done')
    const { id: snapshotId } = await host.done({ $case: 'snapshotCreate', value: { uuid: guest, description: '' } })
    fill('random 600M >data; for i in 1 2 3 4 5; do truncate -s 120M sparse$i; done')
    const data = describeData(guest)
    expect(await freeBytes(guest)).to.be.below(0)
    const id = await host.backUp(guest, target)
    const { status, error } = await restore(guest, id)
    expect(status, error).to.equal('done')
    expect(describeData(guest) === data, 'the same data').to.equal(true)
    expect(host.record(guest).extraBytes).to.equal(0)
    await host.done({ $case: 'snapshotDelete', value: { uuid: guest, snapshotId } })
    await host.done({ $case: 'backupDelete', value: { uuid: guest, target, backupId: id } })
    await host.isClean()
  })

  it('can be restored without its list of sparse and shared ranges, but needs more temporary space', async () => {
    fill('random 100M >data; truncate -s 2000M sparse')
    const [before, data] = [await freeBytes(guest), describeData(guest)]
    const id = await host.backUp(guest, target)
    replaceWithoutLayout()
    const { status, error } = await restore(guest, id)
    expect(status, error).to.equal('done')
    expect(describeData(guest) === data, 'the same data').to.equal(true)
    await expectFree(guest, before)
    await host.done({ $case: 'backupDelete', value: { uuid: guest, target, backupId: id } })
    await host.isClean()
  })

  /** Replaces the guest's only backup by one with the same files and tags, but without a record of holes in files. */
  function replaceWithoutLayout(): void {
    const restic = (...args: string[]): string =>
      execFileSync('restic', ['--repo', join(scratch.path, 'local', guest), '--no-cache', ...args], {
        cwd: scratch.path,
        encoding: 'utf8',
        env: { ...process.env, RESTIC_PASSWORD: target.password },
      })
    const [{ snapshotId, backup } = expect.fail('no snapshot')] = parseSnapshots(restic('snapshots', '--json'))
    sh('cp', '-a', '--sparse=always', host.rootOf(guest), join(scratch.path, 'volume'))
    restic('backup', 'volume', '--host', guest, ...planTags(backup.id, backup).flatMap((tag) => ['--tag', tag]))
    restic('forget', snapshotId)
    rmSync(join(scratch.path, 'volume'), { recursive: true })
  }
})
