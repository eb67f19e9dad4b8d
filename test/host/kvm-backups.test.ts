import { randomUUID } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { PolicySettings } from '../../agent/guests/settings/policy.js'
import { setLimits } from '../../agent/guests/settings/limits.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { powerOrder } from '../support/host/agent-calls.js'
import { BackupHost } from '../support/host/backup-host.js'
import { kvm, machineAt } from '../support/guests/guest-kinds.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 ** 2
const otherPassword = 'of-the-Other-1'

/** Repeats tests of guest-backups.test.ts with running virtual machines, whose disk is a single file. */
describe('backups of virtual machines', function () {
  const scratch = scratchDirectory('btest-kvb-targets')
  let first: BackupHost
  let second: BackupHost
  let uuid: string
  let other: string
  let target: BackupTarget

  before(async () => {
    first = await BackupHost.open('kba', [kvm])
    uuid = await first.addGuest(1, 'kept', kvm.spec) // the guest boots while the second host is opened
    second = await BackupHost.open('kbb', [kvm])
    other = await second.addGuest(2, 'other', { ...kvm.spec, sshPassword: otherPassword })
    const place = { $case: 'local', value: { path: join(scratch.path, 'local') } } as const
    mkdirSync(place.value.path)
    target = { id: randomUUID(), name: 'vault', password: 'of-the-vault-1', verifyPercent: 100, place }
  })
  after(async () => {
    await first?.close()
    await second?.close()
    scratch.wipe()
  })
  afterEach(async () => {
    await first.isClean()
    await second.isClean()
  })

  const restore = (at: BackupHost, guest: string, backupId: string) =>
    at.carryOut({ $case: 'backupRestore', value: { uuid: guest, target, backupId, sourceUuid: uuid } })
  const inside = (at: BackupHost, guest: string, command: string, password = machineAt('').password) =>
    sshInto({ address: at.record(guest).ipv4, password }, command)

  /** Expects a sparse disk of the full size, which only root can access and which has no copy-on-write. */
  function expectWhole(at: BackupHost, guest: string): void {
    const disk = join(at.rootOf(guest), 'disk.raw')
    const { mode, uid, size, blocks } = lstatSync(disk)
    expect([mode & 0o777, uid, size]).to.deep.equal([0o600, 0, 1024 * mib])
    expect((blocks * 512) / mib, 'MiB').to.be.lessThan(128)
    expect(sh('lsattr', disk)).to.match(/^\S*C/)
    expect(readdirSync(at.rootOf(guest)).sort()).to.deep.equal(['disk.raw', 'instance.json'])
  }

  it('contain the disk as it was at the start of the backup, and can be restored while the guest runs', async () => {
    await inside(first, uuid, 'echo before >/data/word; sync')
    first.observer = async ({ step, phase }) => {
      if (step === 'send' && phase === 'before-run') await inside(first, uuid, 'echo after >/data/word; sync')
    }
    const id = await first.backUp(uuid, target)
    first.observer = () => undefined
    expect(await inside(first, uuid, 'cat /data/word')).to.equal('after')
    const restored = await restore(first, uuid, id)
    expect([restored.status, restored.error]).to.deep.equal(['done', ''])
    expect(first.record(uuid)).to.include({ status: 'running', fetchedBytes: 0 })
    expect(await inside(first, uuid, 'cat /data/word; hostname')).to.equal('before\nkept')
    expectWhole(first, uuid)
  })

  it('can be restored onto a guest of another host, and this guest keeps its name and login', async () => {
    const id = first.record(uuid).backups.at(-1)!.id
    const restored = await restore(second, other, id)
    expect([restored.status, restored.error]).to.deep.equal(['done', ''])
    expect(await inside(second, other, 'cat /data/word; hostname', otherPassword)).to.equal('before\nother')
    expectWhole(second, other)
  })

  it('cannot be restored if their disk is larger than the guest’s, or if the target’s password is wrong', async () => {
    const id = first.record(uuid).backups.at(-1)!.id
    const wrong = { ...target, password: 'another-password' }
    const refused = await second.carryOut({
      $case: 'backupRestore',
      value: { uuid: other, target: wrong, backupId: id, sourceUuid: uuid },
    })
    expect(refused.errorCode).to.equal('backup_password_wrong')
    const { context, capacity } = first.domain
    await setLimits(context, { uuid, ifRevision: 0 }, { wanted: { diskGb: 2 }, capacity })
    const large = await first.backUp(uuid, target)
    expect((await restore(second, other, large)).errorCode).to.equal('disk_too_small')
    expect(second.record(other).status).to.equal('running')
    expect(await inside(second, other, 'cat /data/word', otherPassword)).to.equal('before')
  })

  it('cannot be restored onto a suspended virtual machine, and do not start this virtual machine', async () => {
    const policy = new PolicySettings(second.domain.context, second.domain.policy)
    const order = { reason: 'unpaid', message: '', mode: 'stop', untilMs: 0 }
    await policy.suspend({ uuid: other, ifRevision: 0 }, order)
    await waitFor(() => second.record(other).status === 'stopped', { what: 'its end' })
    const id = first.record(uuid).backups[0]!.id
    expect(await refusal(restore(second, other, id))).to.match(/^policy_blocked/)
    expect(await refusal(second.done(powerOrder('start', other).order!))).to.match(/^policy_blocked/)
    expect(second.record(other)).to.include({ status: 'stopped', wanted: 'stopped' })
    expect(second.record(other).suspension?.mode).to.equal('stop')
  })
})
