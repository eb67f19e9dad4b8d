import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'chai'
import { pino } from 'pino'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { removePool } from '../../agent/storage/remove.js'
import { Trash } from '../../agent/storage/trash.js'
import { Volumes } from '../../agent/storage/volumes.js'
import { nodeArguments } from '../support/programs.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const log = pino({ level: 'silent' })
const mib = 1024 ** 2
const gib = 1024 ** 3

describe('snapshots of volumes', function () {
  const scratch = scratchDirectory('btest-snapshots')
  const config = testStorage(scratch.path)
  let pool: Pool
  let trash: Trash
  let volumes: Volumes
  let guest: string
  let root: string

  before(async () => {
    pool = await openPool(config)
    trash = new Trash(pool, log)
    volumes = new Volumes(pool, trash)
    sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/small-1`)
    mkdirSync(`${pool.images}/small-1/etc`)
    writeFileSync(`${pool.images}/small-1/etc/os`, 'small')
    sh('btrfs', 'property', 'set', '-ts', `${pool.images}/small-1`, 'ro', 'true')
  })
  after(async () => {
    await removePool(config, log)
    scratch.wipe()
  })
  beforeEach(async () => {
    guest = randomUUID()
    root = volumes.pathOf(guest)
    await volumes.clone(guest, 'small-1', gib)
    put('first')
  })
  afterEach(async () => {
    for (const one of await volumes.list()) await volumes.remove(one)
    await trash.settled()
    expect([pool.guests, pool.snapshots, pool.trash].flatMap((folder) => readdirSync(folder))).to.deep.equal([])
  })

  const put = (text: string): void => writeFileSync(`${root}/word`, text)
  const word = (path = root): string => readFileSync(`${path}/word`, 'utf8')
  const write = (path: string, megabytes: number): void =>
    void sh('dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${megabytes}`, 'conv=fsync')
  const sync = (): void => void sh('btrfs', 'filesystem', 'sync', pool.path)
  const used = async (): Promise<number> => (sync(), (await volumes.usage()).get(guest) ?? -1)
  const groups = (): string[] =>
    readdirSync(`/sys/fs/btrfs/${pool.view.fsid}/qgroups`).filter((name) => /^\d+_\d+$/.test(name))

  it('are read-only copies of a volume that the guest cannot see, and are created only once', async () => {
    expect((await volumes.snapshot(guest, 'before')).made).to.equal(true)
    put('second')
    expect((await volumes.snapshot(guest, 'before')).made).to.equal(false)
    await volumes.snapshot(guest, 'after')
    expect((await volumes.listSnapshots(guest)).sort()).to.deep.equal(['after', 'before'])
    const path = volumes.snapshotPathOf(guest, 'before')
    expect(word(path)).to.equal('first')
    expect(() => writeFileSync(`${path}/word`, 'x')).to.throw(/EROFS/)
    expect(statSync(`${pool.snapshots}/${guest}`).mode & 0o777).to.equal(0o700)
    expect(readdirSync(root).sort()).to.deep.equal(['etc', 'word'])
  })

  it('are rejected if their name is invalid or the volume is missing', async () => {
    for (const id of ['', '.', '..', 'a/b', 'A', `${'a'.repeat(64)}`, 'x.next'])
      expect(await refusal(volumes.snapshot(guest, id)), id).to.match(/invalid_field/)
    expect(await refusal(volumes.snapshot(randomUUID(), 'a'))).to.match(/volume_missing/)
    expect(await refusal(volumes.restore(guest, 'absent', gib))).to.match(/snapshot_missing/)
    expect(word()).to.equal('first')
    expect(readdirSync(pool.guests)).to.deep.equal([guest])
  })

  it('report the number of bytes that counted towards the disk limit at their creation', async () => {
    write(`${root}/data`, 16)
    const { sizeBytes } = await volumes.snapshot(guest, 'a')
    expect(sizeBytes).to.be.within(16 * mib, 17 * mib)
  })

  it('can be restored to a writable volume with a limit, and still exist after the restore', async () => {
    await volumes.snapshot(guest, 'a')
    put('second')
    for (let i = 0; i < 2; i++) {
      await volumes.restore(guest, 'a', 64 * mib)
      expect(word()).to.equal('first')
      put('third')
    }
    expect(() => write(`${root}/big`, 128)).to.throw(/quota exceeded/i)
    expect(word(volumes.snapshotPathOf(guest, 'a'))).to.equal('first')
    expect(readdirSync(pool.guests)).to.deep.equal([guest])
    expect(await volumes.ensureLimits(new Map([[guest, 64 * mib]]))).to.deep.equal([])
  })

  it('restore a volume even if it has become read-only or is missing', async () => {
    await volumes.snapshot(guest, 'a')
    sh('btrfs', 'property', 'set', '-ts', root, 'ro', 'true')
    await volumes.restore(guest, 'a', gib)
    put('second')
    renameSync(root, `${pool.trash}/${guest}.lost`)
    await volumes.restore(guest, 'a', gib)
    expect(word()).to.equal('first')
    await trash.sweep()
  })

  it('count towards the guest’s disk limit until no volume uses their data any more', async () => {
    write(`${root}/data`, 40)
    await volumes.snapshot(guest, 'a')
    await volumes.restore(guest, 'a', 64 * mib)
    await trash.settled()
    expect(await used(), 'after a restore').to.be.within(40 * mib, 42 * mib)
    expect(() => write(`${root}/more`, 40), 'more than the remaining space').to.throw(/quota exceeded/i)
    for (const name of ['more', 'data']) sh('rm', `${root}/${name}`)
    expect(await used(), 'held by the snapshot').to.be.within(40 * mib, 42 * mib)
    expect([await volumes.deleteSnapshot(guest, 'a'), await volumes.deleteSnapshot(guest, 'a')]).to.deep.equal([
      true,
      false,
    ])
    await waitFor(async () => (await used()) < mib, { what: 'the deleted snapshot’s space', intervalMs: 200 })
    write(`${root}/more`, 40)
  })

  it('can be deleted without damaging volumes that were restored from them', async () => {
    write(`${root}/data`, 4)
    const before = sh('sha256sum', `${root}/data`).split(' ')[0]
    await volumes.snapshot(guest, 'a')
    await volumes.restore(guest, 'a', gib)
    await volumes.snapshot(guest, 'b')
    await volumes.deleteSnapshot(guest, 'a')
    await trash.settled()
    sync()
    expect(sh('sha256sum', `${root}/data`).split(' ')[0]).to.equal(before)
    expect(await volumes.listSnapshots(guest)).to.deep.equal(['b'])
  })

  it('still exist when a new volume from an image has replaced the volume', async () => {
    await volumes.snapshot(guest, 'a')
    for (let i = 0; i < 2; i++) await volumes.prepare(guest, { templateId: 'small-1' }, gib)
    expect(word()).to.equal('first')
    expect(existsSync(`${volumes.nextPathOf(guest)}/word`)).to.equal(false)
    writeFileSync(`${volumes.nextPathOf(guest)}/word`, 'new')
    expect([await volumes.exchange(guest), await volumes.exchange(guest)]).to.deep.equal(['exchanged', 'nothing'])
    expect(word()).to.equal('new')
    expect(await volumes.listSnapshots(guest)).to.deep.equal(['a'])
  })

  it('survive a kill of the agent after the volume was replaced, but before the old volume was deleted', async () => {
    await volumes.prepare(guest, { templateId: 'small-1' }, gib)
    writeFileSync(`${volumes.nextPathOf(guest)}/word`, 'new')
    // These renames simulate an agent that was killed when it had exchanged the volumes, but not deleted the old one.
    for (const [from, to] of [
      [root, `${root}.old`],
      [volumes.nextPathOf(guest), root],
      [`${root}.old`, volumes.nextPathOf(guest)],
    ] as const)
      renameSync(from, to)
    expect([await volumes.exchange(guest), await volumes.exchange(guest)]).to.deep.equal(['done', 'nothing'])
    expect(word()).to.equal('new')
  })

  it('are not needed to discard a prepared replacement of a volume, and the volume stays unchanged', async () => {
    await volumes.prepare(guest, { templateId: 'small-1' }, gib)
    expect([await volumes.discardNext(guest), await volumes.discardNext(guest)]).to.deep.equal([true, false])
    expect(await volumes.list()).to.deep.equal([guest])
    expect(word()).to.equal('first')
  })

  it('are deleted with their guest and quota groups, even if the volume is missing', async () => {
    const before = groups().length
    const other = randomUUID()
    await volumes.clone(other, 'small-1', gib)
    for (const one of [guest, other]) for (const id of ['a', 'b', 'c']) await volumes.snapshot(one, id)
    await volumes.prepare(guest, { snapshot: 'b' }, gib)
    await trash.discard(volumes.pathOf(other))
    expect((await volumes.list()).sort()).to.deep.equal([guest, other].sort())
    for (let i = 0; i < 2; i++) for (const one of [guest, other]) await volumes.remove(one)
    expect(await volumes.list()).to.deep.equal([])
    await trash.settled()
    sync()
    await waitFor(() => volumes.sweep().then(() => groups().length <= before - 2), {
      what: () => `less quota groups: ${groups().join(' ')}`,
      intervalMs: 200,
    })
  })

  it('report their size even with classic btrfs quotas, and a volume restored from them has its size limit', async () => {
    const theirs = { ...config, pool: `${scratch.path}/theirs`, loop_file: `${scratch.path}/theirs.img` }
    writeFileSync(theirs.loop_file, '')
    sh('truncate', '-s', '1G', theirs.loop_file)
    sh('mkfs.btrfs', '-q', theirs.loop_file)
    const classic = await openPool(theirs)
    const others = new Volumes(classic, new Trash(classic, log))
    sh('btrfs', '-q', 'subvolume', 'create', `${classic.images}/small-1`)
    await others.clone(guest, 'small-1', 256 * mib)
    write(`${others.pathOf(guest)}/data`, 16)
    expect((await others.snapshot(guest, 'a')).sizeBytes).to.be.within(16 * mib, 17 * mib)
    await others.restore(guest, 'a', 64 * mib)
    expect(await others.ensureLimits(new Map([[guest, 64 * mib]]))).to.deep.equal([])
    expect(() => write(`${others.pathOf(guest)}/more`, 128)).to.throw(/quota exceeded/i)
    expect(await classic.view.quotaInconsistent()).to.equal(false)
    await removePool(theirs, log)
  })

  it('leave a guest with a complete volume if the agent is killed at any moment of a restore', async () => {
    for (const [text, id] of [
      ['one', 'a'],
      ['two', 'b'],
    ] as const) {
      for (const name of ['word', 'etc/os']) writeFileSync(`${root}/${name}`, text)
      await volumes.snapshot(guest, id)
    }
    const source = 'test/support/host/volumes-main.ts'
    const program = nodeArguments(source, JSON.stringify(config), guest, 'a', 'b')
    for (const delayMs of [1, 5, 11, 18, 26, 35, 47, 60]) {
      const child = spawn('node', program, { stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = new Promise((resolve) => child.once('exit', resolve))
      await new Promise((resolve) => child.stdout.once('data', resolve))
      await sleep(delayMs)
      child.kill('SIGKILL')
      await ended
      expect(['one', 'two']).to.include(word())
      expect(readFileSync(`${root}/etc/os`, 'utf8')).to.equal(word())
      await new Volumes(pool, new Trash(pool, log)).restore(guest, 'a', gib)
      expect(word()).to.equal('one')
      await trash.sweep()
    }
  })
})
