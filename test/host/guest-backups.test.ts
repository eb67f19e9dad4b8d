import { execFile, execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect } from 'chai'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { decodeSettings } from '../../agent/guests/snapshots/backup-settings.js'
import { noBackupSchedule } from '../../agent/guests/record/snapshots-and-backups.js'
import { PolicySettings } from '../../agent/guests/settings/policy.js'
import { createRequest, plainSpec, powerOrder } from '../support/host/agent-calls.js'
import { BackupHost } from '../support/host/backup-host.js'
import { checkFirewall } from '../../shared/firewall-rules.js'
import { refusal } from '../support/refusal.js'
import { TestS3 } from '../support/host/s3-server.js'
import { scratchDirectory } from '../support/scratch.js'
import { TestSftp } from '../support/host/sftp-server.js'
import { digestTree } from '../support/host/tree-digest.js'
import { waitFor } from '../support/wait.js'
import { writeVariedTree } from '../support/host/varied-tree.js'

const password = 'the-password-of-the-vault'
const sizeMib = 32

/** Files that differ between guests with different names. */
const ownFiles = ['etc/hostname', 'etc/hosts', 'etc/resolv.conf', 'etc/shadow', 'etc/passwd']

describe('backups of guests', function () {
  const scratch = scratchDirectory('btest-gb-targets')
  let first: BackupHost
  let second: BackupHost
  let uuid: string
  let other: string
  let sftp: TestSftp
  let s3: TestS3
  /** Id of the backup in the local folder, which several tests use. */
  let usual: string

  before(async () => {
    first = await BackupHost.open('gba')
    second = await BackupHost.open('gbb')
    uuid = await first.addGuest(1, 'kept')
    other = await second.addGuest(2, 'other')
    await first.done(powerOrder('stop', uuid).order!)
    await second.done(powerOrder('stop', other).order!)
    writeVariedTree(first.rootOf(uuid), sizeMib)
    mkdirSync(join(scratch.path, 'local'))
    sftp = await TestSftp.start(join(scratch.path, 'sftp'))
    s3 = await TestS3.start(join(scratch.path, 's3'))
    usual = await backUpVerified(localTarget())
  })
  after(async () => {
    await sftp?.close()
    await s3?.close()
    await first?.close()
    await second?.close()
    scratch.wipe()
  })
  afterEach(async () => {
    first.observer = () => undefined
    s3.twist = () => false
    for (const { id, targetId } of first.record(uuid).backups)
      if (id !== usual) await remove(id, targets.get(targetId)!)
    await first.isClean()
    await second.isClean()
  })

  const targets = new Map<string, BackupTarget>()
  const target = (place: NonNullable<BackupTarget['place']>): BackupTarget => {
    const made = { id: randomUUID(), name: 'vault', password, verifyPercent: 100, place }
    targets.set(made.id, made)
    return made
  }
  const localTarget = (): BackupTarget => target({ $case: 'local', value: { path: join(scratch.path, 'local') } })
  const sftpTarget = (): BackupTarget => target({ $case: 'sftp', value: sftp.place })
  const s3Target = (): BackupTarget => target({ $case: 's3', value: s3.place })
  const restore = (at: BackupHost, guest: string, backupId: string, from: BackupTarget) =>
    at.carryOut({
      $case: 'backupRestore',
      value: { uuid: guest, target: from, backupId, sourceUuid: uuid },
    })
  const remove = (backupId: string, from: BackupTarget) =>
    first.done({ $case: 'backupDelete', value: { uuid, target: from, backupId } })

  const backupIds = (): string[] => first.record(uuid).backups.map(({ id }) => id)

  async function backUpVerified(to: BackupTarget): Promise<string> {
    const id = await first.backUp(uuid, to)
    const backup = first.record(uuid).backups.at(-1)
    expect(backup).to.include({ id, state: 'ready', targetId: to.id, description: 'of a test' })
    expect(backup!.sizeBytes).to.be.within(sizeMib * 1024 ** 2, 2 * (sizeMib + 80) * 1024 ** 2)
    expect(backup!.storedBytes).to.be.within(sizeMib * 1024 ** 2, (sizeMib + 20) * 1024 ** 2)
    expect(backup!.verifiedAtMs).to.be.greaterThan(0)
    return id
  }

  it('are stored in a local folder, and are restored completely', async () => {
    const kept = digestTree(first.rootOf(uuid))
    writeFileSync(join(first.rootOf(uuid), 'later'), 'later')
    expect((await restore(first, uuid, usual, localTarget())).status).to.equal('done')
    expect(digestTree(first.rootOf(uuid))).to.equal(kept)
    expect(first.record(uuid)).to.include({ status: 'stopped', fetchedBytes: 0 })
  })

  for (const [kind, targetOf] of [
    ['sftp', sftpTarget],
    ['S3', s3Target],
  ] as const)
    it(`are stored on a server with ${kind}, and are restored completely on another host`, async () => {
      const to = targetOf()
      const id = await backUpVerified(to)
      expect((await restore(second, other, id, to)).status).to.equal('done')
      expect(readFileSync(join(second.rootOf(other), 'etc/hostname'), 'utf8')).to.equal('other\n')
      expect(digestOthers(second.rootOf(other))).to.equal(digestOthers(first.rootOf(uuid)))

      await remove(id, to)
      expect(backupIds()).to.deep.equal([usual])
      expect((await restore(second, other, id, to)).errorCode).to.equal('backup_missing')
    })

  it('are restored as a new guest on another host after the original was deleted', async () => {
    const to = localTarget()
    const lost = await first.addGuest(7, 'lost', { limits: { ...plainSpec.limits!, ramMb: 192 } })
    first.inside(7, 'echo precious >/root/data; sync')
    const firewall = checkFirewall({ enabled: true, defaultAction: 'DROP', rules: [] })
    first.domain.context.store.update(lost, { firewall })
    const id = await first.backUp(lost, to)
    await first.done(powerOrder('delete', lost).order!)

    const watch = { signal: new AbortController().signal, report: () => undefined }
    const [stored] = await second.domain.context.backups.list({ target: to, guest: lost }, watch)
    const listed = decodeSettings(id, stored!.settings)
    expect(listed).to.deep.include({ backupId: id, name: 'lost' })
    expect(listed!.spec).to.deep.include({ templateId: 'debian-12', virtualization: 'lxc' })
    expect(listed!.spec!.limits!.ramMb).to.equal(192)

    const { operationId, ...create } = createRequest(8, 'found', { limits: listed!.spec!.limits! })
    const order = {
      create,
      target: to,
      backupId: id,
      sourceUuid: lost,
      generation: 0,
      former: undefined,
      sharedPools: [],
      standbyId: '',
    }
    const made = await second.carryOut({ $case: 'createFromBackup', value: order }, operationId)
    expect([made.status, made.error]).to.deep.equal(['done', ''])
    expect(second.record(create.uuid)).to.include({ status: 'running', fetchedBytes: 0 })
    expect(second.inside(8, 'cat /root/data; cat /etc/hostname')).to.equal('precious\nfound')
    expect(second.record(create.uuid).firewall).to.deep.equal(firewall)
    const again = await second.carryOut({ $case: 'createFromBackup', value: order }, operationId)
    expect(again.id).to.equal(made.id)
    await second.done(powerOrder('delete', create.uuid).order!)

    const missing = { ...order, create: { ...create, uuid: randomUUID() }, backupId: randomUUID() }
    expect((await second.carryOut({ $case: 'createFromBackup', value: missing })).errorCode).to.equal('backup_missing')
    expect(second.domain.context.store.find(missing.create.uuid)).to.equal(undefined)
    await first.done({ $case: 'backupDelete', value: { uuid: lost, target: to, backupId: id } })
  })

  /** Digest of all files, except those that differ between guests. */
  function digestOthers(root: string): string {
    const etc = join(root, 'etc')
    utimesSync(etc, 0, 0)
    return digestTree(
      root,
      ownFiles.map((file) => `./${file}`),
    )
  }

  it('contain the state of a running guest at the start of the backup, even if the guest writes', async () => {
    const to = localTarget()
    await first.done(powerOrder('start', uuid).order!)
    first.inside(1, 'echo before >/root/data; sync')
    first.observer = ({ step, phase }) => {
      if (step === 'send' && phase === 'before-run') first.inside(1, 'echo after >/root/data; sync')
    }
    const id = await first.backUp(uuid, to)
    expect(first.inside(1, 'cat /root/data')).to.equal('after')
    expect((await restore(first, uuid, id, to)).status).to.equal('done')
    expect(first.record(uuid).status).to.equal('running')
    expect(first.inside(1, 'cat /root/data')).to.equal('before')
    await first.done(powerOrder('stop', uuid).order!)
  })

  it('cannot be restored onto a suspended guest, and start no guest that is suspended during the restore', async () => {
    const to = localTarget()
    const id = await first.backUp(uuid, to)
    const policy = new PolicySettings(first.domain.context, first.domain.policy)
    const aim = { uuid, ifRevision: 0 }
    const order = { reason: 'unpaid', message: '', mode: 'stop', untilMs: 0 }
    const isStopped = (): boolean => {
      const { status, wanted } = first.record(uuid)
      return status === 'stopped' && wanted === 'stopped'
    }
    for (const [step, code, content] of [
      ['fetch', 'policy_blocked', 'later'],
      ['exchange', '', 'absent'],
    ] as const) {
      await first.done(powerOrder('start', uuid).order!)
      first.inside(1, 'echo later >/root/later; sync')
      first.observer = async (event) => {
        if (event.step === step && event.phase === 'after-run') await policy.suspend(aim, order)
      }
      expect((await restore(first, uuid, id, to)).errorCode).to.equal(code)
      first.observer = () => undefined
      await first.domain.policy.look()
      await waitFor(isStopped, { what: 'the guest to be stopped' })
      expect(existsSync(join(first.rootOf(uuid), 'root/later')) ? 'later' : 'absent').to.equal(content)
      expect(await refusal(restore(first, uuid, id, to))).to.match(/^policy_blocked/)
      expect(first.record(uuid)).to.include({ status: 'stopped', wanted: 'stopped' })
      expect(first.record(uuid).suspension?.mode).to.equal('stop')
      await policy.unsuspend(aim)
      await first.done(powerOrder('stop', uuid).order!)
    }
  })

  it('transfer only the data that changed since the previous backup', async () => {
    const path = join(scratch.path, 'changes')
    mkdirSync(path)
    const to = target({ $case: 'local', value: { path } })
    const whole = await first.backUp(uuid, to)
    writeFileSync(join(first.rootOf(uuid), 'small'), 'x'.repeat(1000))
    const changes = await first.backUp(uuid, to)
    expect(first.record(uuid).backups.at(-1)!.storedBytes).to.be.lessThan(1024 ** 2)
    await remove(whole, to)
    expect((await restore(first, uuid, changes, to)).status).to.equal('done')
  })

  it('are created and verified by a schedule, which keeps a limited number of backups', async () => {
    const to = localTarget()
    const { context, engine, backups } = first.domain
    const runs = { enabled: true, intervalHours: 24, time: '03:30', firstDay: '2026-11-23', retention: 1 }
    const made: string[] = []
    for (let run = 0; run < 2; run++) {
      const target = context.targets.seal(uuid, to)
      const due = { nextRunMs: Date.now() - 1000, targetId: to.id, target }
      context.store.update(uuid, { backupSchedule: { ...noBackupSchedule, ...runs, ...due } })
      backups.look()
      expect(engine.busy({ kind: 'backup', id: uuid })).to.equal(true)
      await waitFor(() => !engine.busy({ kind: 'backup', id: uuid }), {
        what: 'the backup',
      })
      const [backup, ...others] = first.record(uuid).backups.filter(({ id }) => id !== usual)
      expect(others).to.deep.equal([])
      expect(backup).to.include({ scheduled: true, state: 'ready', targetId: to.id })
      expect(backup!.verifiedAtMs).to.be.greaterThan(0)
      made.push(backup!.id)
    }
    context.store.update(uuid, { backupSchedule: noBackupSchedule })
    expect((await restore(first, uuid, made[0]!, to)).errorCode).to.equal('backup_missing')
    expect((await restore(first, uuid, made[1]!, to)).status).to.equal('done')
  })

  it('can be restored onto an almost full disk with a snapshot, and do not reduce the size of the disk', async () => {
    const limit = 1024 ** 3
    const hasBound = async (): Promise<boolean> => {
      const bound = limit + first.record(uuid).extraBytes
      return (await first.host.volumes.ensureLimits(new Map([[uuid, bound]]))).length === 0
    }
    // Data that earlier tests deleted counts as used space until the kernel has freed it.
    await waitFor(async () => ((await first.host.volumes.usage()).get(uuid) ?? 0) < 150 * 1024 ** 2, {
      what: 'old disks to vanish',
    })
    const usedBytes = (await first.host.volumes.usage()).get(uuid) ?? 0
    const roomMib = Math.floor((limit - usedBytes) / 1024 ** 2) - 20
    const fill = (name: string, megabytes: number): unknown =>
      execFileSync(
        'dd',
        ['if=/dev/zero', `of=${join(first.rootOf(uuid), name)}`, 'bs=1M', `count=${megabytes}`, 'conv=fsync'],
        { stdio: 'ignore' },
      )
    fill('fill', roomMib)
    const { id: snapshotId } = await first.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
    const restored = await restore(first, uuid, usual, localTarget())
    expect(restored.status, restored.error).to.equal('done')
    fill('after', roomMib) // the snapshot of the full disk still exists, and must not take space from the guest
    await first.done({ $case: 'snapshotDelete', value: { uuid, snapshotId } })
    await waitFor(async () => (await first.domain.reconciler.pass(), await hasBound()), {
      what: 'the limit to be what the guest bought',
    })
    // `extraBytes` is the size of blocks and metadata that the restored disk no longer shares with the image.
    expect(first.record(uuid).extraBytes).to.be.lessThan(16 * 1024 ** 2)
  })

  it('fail if the target is unreachable, or if its password, host key or credentials are wrong', async () => {
    const to = localTarget()
    const wrongKey = {
      ...sftp.place,
      hostKey: readFileSync(join(scratch.path, 'sftp/user.pub'), 'utf8').trim(),
    }
    const away = { ...sftp.place, port: 9 }
    const cases: [BackupTarget, string][] = [
      [{ ...to, password: 'another-password' }, 'backup_password_wrong'],
      [target({ $case: 'sftp', value: wrongKey }), 'backup_target_refused'],
      [target({ $case: 'sftp', value: { ...sftp.place, user: 'nobody' } }), 'backup_target_refused'],
      [target({ $case: 'sftp', value: away }), 'backup_target_unreachable'],
      [target({ $case: 's3', value: { ...s3.place, accessKeyId: 'unknown' } }), 'backup_target_refused'],
      [target({ $case: 's3', value: { ...s3.place, endpoint: 'https://127.0.0.1:9' } }), 'backup_target_unreachable'],
      [target({ $case: 's3', value: { ...s3.place, caCertificate: '' } }), 'backup_target_refused'],
      [target({ $case: 'local', value: { path: '/var/tmp/btest-gb-none' } }), 'backup_target_unreachable'],
    ]
    for (const [wrong, code] of cases) {
      const failed = await first.carryOut({
        $case: 'backupCreate',
        value: { uuid, target: wrong, description: '' },
      })
      expect([failed.status, failed.errorCode], failed.error).to.deep.equal(['failed', code])
      const checked = await first.carryOut({ $case: 'backupTargetCheck', value: { target: wrong } })
      // The check of a backup target does not read backups, so it succeeds despite a wrong password.
      if (code !== 'backup_password_wrong') expect(checked.errorCode).to.equal(code)
      expect(backupIds()).to.deep.equal([usual])
    }
  })

  it('fail and leave nothing behind if the target is full, disconnects or stores wrong data', async () => {
    const small = join(scratch.path, 'small')
    mkdirSync(small)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'btest', small])
    const failing = async (to: BackupTarget): Promise<string> => {
      const began = performance.now()
      const { status, errorCode, error } = await first.carryOut({
        $case: 'backupCreate',
        value: { uuid, target: to, description: '' },
      })
      expect([status, backupIds()], error).to.deep.equal(['failed', [usual]])
      if (process.env['BTEST_LOG']) console.log(errorCode, error)
      expect(performance.now() - began).to.be.lessThan(90_000)
      await first.isClean()
      return errorCode
    }
    try {
      expect(await failing(target({ $case: 'local', value: { path: small } }))).to.equal('backup_target_full')
    } finally {
      execFileSync('umount', [small])
    }

    let puts = 0
    s3.twist = ({ method, url }, response) => {
      if (method !== 'PUT' || !url?.includes('/data/') || puts++ < 1) return false
      response.writeHead(507, { 'content-type': 'application/xml' })
      response.end(
        '<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its minimum free drive threshold.</Message></Error>',
      )
      return true
    }
    expect(await failing(s3Target())).to.equal('backup_target_full')

    puts = 0
    s3.twist = ({ method, url, socket }) => {
      if (method !== 'PUT' || !url?.includes('/data/')) return false
      socket.destroy()
      return true
    }
    expect(await failing(s3Target())).to.equal('backup_target_unreachable')
    s3.twist = () => false

    // Cuts the connection after 8 MiB, in the middle of a file, however fast the machine is.
    await sftp.close()
    await sftp.resume({ endsAfter: 8 * 1024 ** 2 })
    expect(await failing(sftpTarget())).to.equal('backup_target_unreachable')
    await sftp.close()
    await sftp.resume()

    first.observer = async ({ step, phase }) => {
      if (step === 'verify' && phase === 'before-run') await sftp.close()
    }
    expect(await failing(sftpTarget())).to.equal('backup_target_unreachable')
    first.observer = () => undefined
    await sftp.resume()

    // The target confirms the data, but stores other data of the same size.
    first.observer = ({ step, phase }) => {
      if (step === 'verify' && phase === 'before-run') spoil(join(s3.directory, 'berth'))
    }
    expect(await failing(s3Target())).to.equal('backup_damaged')
  })

  it('can be canceled while data is transferred', async () => {
    const id = randomUUID()
    const order = { $case: 'backupCreate', value: { uuid, target: s3Target(), description: '' } } as const
    s3.twist = ({ method, url }) => method === 'PUT' && url?.includes('/data/') === true && canceled()
    const canceled = (): boolean => {
      if (first.domain.engine.get(id).status === 'running') first.domain.engine.cancel(id)
      return false
    }
    const ended = await first.carryOut(order, id)
    expect([ended.status, backupIds()]).to.deep.equal(['canceled', [usual]])
  })

  it('reveal no secrets in the command lines of processes', async () => {
    const seen: string[] = []
    let isOver = false
    // Runs ps(1) asynchronously, because a wait would block the S3 server, which runs in the process of the test.
    const watching = (async () => {
      for (; !isOver; await delay(200)) seen.push((await promisify(execFile)('ps', ['-eo', 'args', '-ww'])).stdout)
    })()
    await first.backUp(uuid, s3Target()).finally(() => (isOver = true))
    await watching
    const text = seen.join('\n')
    expect(text).to.include('restic')
    for (const secret of [password, `=${s3.place.secretAccessKey}`]) expect(text).not.to.include(secret)
  })
})

/** Changes one byte of each stored data file. */
function spoil(directory: string): void {
  for (const name of readdirSync(directory, { recursive: true }) as string[]) {
    const path = join(directory, name)
    if (!/\/data\/.*_object$/.test(path) || !statSync(path).isFile()) continue
    const content = readFileSync(path)
    content[content.length >> 1]! ^= 1
    writeFileSync(path, content)
  }
}
