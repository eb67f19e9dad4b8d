import { mkdirSync, readFileSync } from 'node:fs'
import { expect } from 'chai'
import { setLimits } from '../../agent/guests/settings/limits.js'
import { plainSpec, powerOrder } from '../support/host/agent-calls.js'
import { RealDomain } from '../support/host/real-domain.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

const gib = 1024 ** 3
const mib = 1024 ** 2

/** Tests real containers on btrfs with the operations and settings of the agent. */
describe('disks of guests', function () {
  const real = new RealDomain('gdk')
  let uuid: string
  let neighbour: string

  before(async () => {
    await real.open()
    uuid = await real.create('full', { limits: { ...plainSpec.limits!, diskGb: 1 } })
    neighbour = await real.create('neighbour', { limits: { ...plainSpec.limits!, diskGb: 1 } })
  })
  after(() => real.close())

  const grow = (diskGb: number) =>
    setLimits(real.domain.context, { uuid, ifRevision: 0 }, { wanted: { diskGb }, capacity: real.domain.capacity })
  const fill = (name: string): string =>
    real.tries(uuid, `dd if=/dev/zero of=/root/${name} bs=1M count=3000; sync; wc -c </root/${name}`)
  const sizeOf = (told: string): number =>
    Number(
      told
        .trim()
        .split('\n')
        .find((line) => /^\d+$/.test(line)),
    )
  const usage = async (): Promise<number> => (await real.host.volumes.usage()).get(uuid) ?? 0

  it('cannot exceed their size, and a full disk does not affect other guests', async () => {
    const told = fill('first')
    expect(told).to.match(/Disk quota exceeded|No space left on device/)
    expect(sizeOf(told)).to.be.within(900 * mib, gib)
    await waitFor(async () => (await usage()) > 900 * mib, { what: 'usage shown' })
    expect(
      real.inside(neighbour, 'dd if=/dev/zero of=/root/own bs=1M count=100 2>/dev/null; wc -c </root/own'),
    ).to.equal(String(100 * mib))
    expect(real.tries(uuid, 'cat /etc/hostname; echo $?')).to.match(/0$/m)
  })

  it('allow snapshots, restores and a boot even if the disk is full', async () => {
    const snapshotId = await real.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
    await real.done(powerOrder('restart', uuid).order)
    await real.done({ $case: 'snapshotRestore', value: { uuid, snapshotId } })
    expect(sizeOf(real.inside(uuid, 'wc -c </root/first'))).to.be.above(900 * mib)
    await real.done({ $case: 'snapshotDelete', value: { uuid, snapshotId } })
  })

  let stuckGuests = 0
  for (const [what, command] of [
    [
      'a large file and a program that continues to write',
      'dd if=/dev/zero of=/root/all bs=1M count=3000; (while sleep 0.05; do echo word >>/root/log; done) >/dev/null 2>&1 & true',
    ],
    [
      'many small files',
      `dd if=/dev/zero of=/root/all bs=1M count=980; x=$(head -c 1500 /dev/zero | tr '\\0' x)
       i=0; while mkdir -p /root/d$i; do for j in $(seq 500); do echo $x >/root/d$i/$j || exit; done; i=$((i+1)); done`,
    ],
  ] as const)
    it(`permit a new password, a reinstallation and snapshot deletions when they are filled by ${what}`, async () => {
      const stuck = await real.create(`stuck-${++stuckGuests}`, {
        limits: { ...plainSpec.limits!, diskGb: 1 },
      })
      const root = real.host.volumes.pathOf(stuck)
      const hash = (): string => /^root:([^:]*):/m.exec(readFileSync(`${root}/etc/shadow`, 'utf8'))?.[1] ?? ''
      const reset = async (): Promise<void> => {
        const before = hash()
        await real.done({ $case: 'resetPassword', value: { uuid: stuck, password: '' } })
        expect(hash())
          .to.match(/^\$6\$/)
          .and.not.equal(before)
        expect(real.record(stuck).fetchedBytes).to.equal(0)
      }
      for (const name of ['.pwd.lock', 'passwd.lock', 'shadow.lock', 'passwd-'])
        mkdirSync(`${root}/etc/${name}`, { recursive: true })
      expect(real.tries(stuck, `{ ${command}; } 2>&1 | tail -3; sync`)).to.match(/quota|space|^$/i)
      await reset()
      const snapshotId = await real.done({ $case: 'snapshotCreate', value: { uuid: stuck, description: '' } })
      await real.done(powerOrder('stop', stuck).order)
      await reset()
      await real.done({ $case: 'snapshotDelete', value: { uuid: stuck, snapshotId } })
      await real.done(powerOrder('start', stuck).order)
      await real.done({
        $case: 'reinstall',
        value: {
          uuid: stuck,
          templateId: 'debian-12',
          force: true,
          liftBlock: false,
          sshAuthMode: 'auto_password',
          sshPassword: '',
          sshPublicKey: '',
        },
      })
      const written = 'dd if=/dev/zero of=/root/new bs=1M count=500 2>/dev/null; sync; wc -c </root/new'
      expect(real.inside(stuck, written)).to.equal(String(500 * mib))
      expect(real.record(stuck)).to.include({ fetchedBytes: 0, extraBytes: 0 })
      await waitFor(async () => (await real.host.volumes.ensureLimits(new Map([[stuck, gib]]))).length === 0, {
        what: 'its original limit',
      })
      await real.done(powerOrder('delete', stuck).order)
    })

  it('can grow while the guest runs, to exactly the new size', async () => {
    await grow(2)
    expect(real.record(uuid).spec.limits.diskGb).to.equal(2)
    const told = fill('second')
    expect(told).to.match(/Disk quota exceeded|No space left on device/)
    expect(sizeOf(told)).to.be.within(900 * mib, gib)
    expect(await real.host.volumes.ensureLimits(new Map([[uuid, 2 * gib]]))).to.deep.equal([])
  })

  it('can neither shrink nor exceed the size of the pool', async () => {
    expect(await codeOf(grow(1))).to.equal('disk_shrink')
    expect(await codeOf(grow(9))).to.equal('resource_exhausted')
    expect(real.record(uuid).spec.limits.diskGb).to.equal(2)
  })

  it('accept data again if files are deleted on a full disk', async () => {
    real.inside(uuid, 'rm /root/first /root/second')
    const write = (): string => real.tries(uuid, 'echo word >/root/small && sync && cat /root/small')
    await waitFor(() => write() === 'word\n', { what: write })
  })
})
