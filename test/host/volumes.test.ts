import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { expect } from 'chai'
import { pino } from 'pino'
import { openPool, readCapacity, type Pool } from '../../agent/storage/pool.js'
import { removePool } from '../../agent/storage/remove.js'
import { Trash } from '../../agent/storage/trash.js'
import { Volumes } from '../../agent/storage/volumes.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const log = pino({ level: 'silent' })
const mib = 1024 ** 2
const gib = 1024 ** 3

describe('volumes of guests', function () {
  const scratch = scratchDirectory('btest-volumes')
  const config = testStorage(scratch.path)
  let pool: Pool
  let trash: Trash
  let volumes: Volumes

  before(async () => {
    pool = await openPool(config)
    trash = new Trash(pool, log)
    volumes = new Volumes(pool, trash)
    const image = `${pool.images}/small-1`
    sh('btrfs', '-q', 'subvolume', 'create', image)
    mkdirSync(`${image}/etc`)
    writeFileSync(`${image}/etc/hostname`, 'template\n')
    writeFileSync(`${image}/data`, Buffer.alloc(8 * mib, 1))
    sh('btrfs', 'property', 'set', '-ts', image, 'ro', 'true')
  })
  after(async () => {
    await removePool(config, log)
    scratch.wipe()
  })
  afterEach(async () => {
    for (const guest of await volumes.list()) await volumes.remove(guest)
    await trash.settled()
    await trash.sweep()
    expect(readdirSync(pool.trash)).to.deep.equal([])
  })

  const qgroups = (): string[] =>
    readdirSync(`/sys/fs/btrfs/${pool.view.fsid}/qgroups`).filter((name) => name.startsWith('0_'))
  const write = (path: string, bytes: number): void =>
    void sh('dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${bytes / mib}`, 'conv=fsync')

  it('are writable clones of an image, which are created only once', async () => {
    const guest = randomUUID()
    for (let i = 0; i < 2; i++) await volumes.clone(guest, 'small-1', gib)
    expect(await volumes.list()).to.deep.equal([guest])
    writeFileSync(`${volumes.pathOf(guest)}/etc/hostname`, 'mine\n')
    await volumes.remove(guest)
    await volumes.remove(guest)
    expect(await volumes.list()).to.deep.equal([])
    expect(existsSync(`${pool.images}/small-1/etc/hostname`)).to.equal(true)
  })

  it('are limited in size, and a volume at its limit does not affect other volumes', async () => {
    const [guest, neighbour] = [randomUUID(), randomUUID()]
    await volumes.clone(guest, 'small-1', 64 * mib)
    await volumes.clone(neighbour, 'small-1', gib)
    expect(() => write(`${volumes.pathOf(guest)}/big`, 128 * mib)).to.throw(/quota exceeded/i)
    expect(statSync(`${volumes.pathOf(guest)}/big`).size).to.be.within(32 * mib, 64 * mib)
    write(`${volumes.pathOf(neighbour)}/big`, 128 * mib)
    await volumes.resize(guest, 256 * mib) // the limit of a full volume can be raised
    write(`${volumes.pathOf(guest)}/big`, 128 * mib)
    sh('btrfs', 'filesystem', 'sync', pool.path)
    const usage = await volumes.usage()
    expect(usage.get(guest)).to.be.within(128 * mib, 145 * mib)
    expect(usage.get(neighbour)).to.be.within(128 * mib, 145 * mib)
  })

  it('count written data towards their limit immediately, even before the data is on the disk', async () => {
    const guest = randomUUID()
    await volumes.clone(guest, 'small-1', gib)
    writeFileSync(`${volumes.pathOf(guest)}/big`, Buffer.alloc(64 * mib, 1))
    expect((await volumes.usage([guest])).get(guest)).to.be.within(64 * mib, 70 * mib)
    sh('btrfs', 'filesystem', 'sync', pool.path)
    expect((await volumes.usage([guest])).get(guest)).to.be.within(64 * mib, 70 * mib)
  })

  it('are limited as soon as they exist, even with classic btrfs quotas', async () => {
    const guest = randomUUID()
    await volumes.clone(guest, 'small-1', gib)
    expect(await volumes.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([])
    const theirs = { ...config, pool: `${scratch.path}/theirs`, loop_file: `${scratch.path}/theirs.img` }
    writeFileSync(theirs.loop_file, '')
    truncateSync(theirs.loop_file, gib)
    sh('mkfs.btrfs', '-q', theirs.loop_file)
    const classic = await openPool(theirs)
    expect(await classic.view.quotaMode()).to.equal('classic')
    const classicVolumes = new Volumes(classic, new Trash(classic, log))
    sh('btrfs', '-q', 'subvolume', 'create', `${classic.images}/small-1`)
    await classicVolumes.clone(guest, 'small-1', 64 * mib)
    expect(await classicVolumes.ensureLimits(new Map([[guest, 64 * mib]]))).to.deep.equal([])
    expect(() => write(`${classicVolumes.pathOf(guest)}/big`, 128 * mib)).to.throw(/quota exceeded/i)
    await classicVolumes.resize(guest, 256 * mib)
    write(`${classicVolumes.pathOf(guest)}/big`, 128 * mib)
    expect(await classic.view.quotaInconsistent()).to.equal(false)
    await removePool(theirs, log)
  })

  it('get their size limit again if it is missing', async () => {
    const guest = randomUUID()
    sh('btrfs', '-q', 'subvolume', 'snapshot', `${pool.images}/small-1`, volumes.pathOf(guest))
    expect(await volumes.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([guest])
    expect(await volumes.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([])
    await volumes.clone(guest, 'small-1', 2 * gib)
    expect(await volumes.ensureLimits(new Map([[guest, 2 * gib]]))).to.deep.equal([])
  })

  it('are not created from a missing or invalid template', async () => {
    for (const template of ['absent', '.building', '../guests', 'small-1/etc'])
      expect(await refusal(volumes.clone(randomUUID(), template, gib))).to.match(/image_missing/)
    expect(() => volumes.pathOf('../images')).to.throw(/not the UUID of a guest/)
    expect(await volumes.list()).to.deep.equal([])
  })

  it('are deleted with all subvolumes of the guest, even read-only and nested subvolumes', async () => {
    const guest = randomUUID()
    await volumes.clone(guest, 'small-1', gib)
    const root = volumes.pathOf(guest)
    const odd = 'x\nID 256 gen 1 top level 5 path images\nsmall-1'
    for (const path of [`${root}/a`, `${root}/a/b`, `${root}/etc/${odd}`, `${root}/-rf`, `${root}/plain`])
      path.endsWith('plain') ? mkdirSync(path) : sh('btrfs', '-q', 'subvolume', 'create', path)
    chownSync(`${root}/a`, 1000, 1000)
    renameSync(`${root}/-rf`, Buffer.concat([Buffer.from(`${root}/plain/`), Buffer.from([0xff, 0xfe])]))
    makeDeep(`${root}/plain`, 5000, () => sh('btrfs', '-q', 'subvolume', 'create', 'deep'))
    for (const path of [`${root}/a/b`, `${root}/a`, `${root}/etc/${odd}`, root])
      sh('btrfs', 'property', 'set', '-ts', path, 'ro', 'true')
    await volumes.remove(guest)
    expect(await volumes.list()).to.deep.equal([])
    await trash.settled()
    expect(readdirSync(pool.trash)).to.deep.equal([])
    expect(existsSync(`${pool.images}/small-1/data`)).to.equal(true)
    sh('btrfs', 'filesystem', 'sync', pool.path)
    await waitFor(() => trash.sweep().then(() => qgroups().length === 2), {
      what: () => `only the top's and the image's qgroup: ${qgroups().join(' ')}`,
    })
  })

  it('are deleted when the agent starts if the power failed while they were in the trash', async () => {
    const guest = randomUUID()
    await volumes.clone(guest, 'small-1', gib)
    renameSync(volumes.pathOf(guest), `${pool.trash}/${guest}.aa`)
    await new Trash(pool, log).sweep()
    expect(readdirSync(pool.trash)).to.deep.equal([])
  })

  it('leave no quota group when they and their image are deleted', async () => {
    const image = `${pool.images}/old`
    sh('btrfs', '-q', 'subvolume', 'snapshot', `${pool.images}/small-1`, image)
    writeFileSync(`${image}/own`, Buffer.alloc(mib, 2))
    const guest = randomUUID()
    await volumes.clone(guest, 'old', gib)
    await trash.discard(image)
    await volumes.remove(guest)
    await trash.settled()
    await trash.sweep() // too early: btrfs has not freed the space yet
    sh('btrfs', 'filesystem', 'sync', pool.path)
    await waitFor(() => trash.sweep().then(() => qgroups().length === 2), {
      what: () => `only the top's and the image's qgroup: ${qgroups().join(' ')}`,
      intervalMs: 500,
    })
  })

  it('are deleted without errors if the trash is emptied several times at the same time', async () => {
    const warnings: string[] = []
    const heard = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) })
    const shared = new Trash(pool, heard)
    const sharing = new Volumes(pool, shared)
    const guests = Array.from({ length: 12 }, () => randomUUID())
    for (const guest of guests) await sharing.clone(guest, 'small-1', gib)
    for (const guest of guests.slice(6)) renameSync(sharing.pathOf(guest), `${pool.trash}/${guest}.aa`)
    const removals = guests.slice(0, 6).map((guest) => sharing.remove(guest))
    await Promise.all([...removals, shared.sweep(), shared.sweep(), shared.sweep()])
    await shared.settled()
    expect([readdirSync(pool.trash), warnings]).to.deep.equal([[], []])
  })

  it('can be created and removed at the same time, even if there are 100 of them', async () => {
    const guests = Array.from({ length: 100 }, () => randomUUID())
    await Promise.all(guests.map((guest) => volumes.clone(guest, 'small-1', gib)))
    expect(await volumes.ensureLimits(new Map(guests.map((guest) => [guest, gib])))).to.deep.equal([])
    expect((await volumes.usage()).size).to.equal(100)
    await Promise.all(guests.map((guest) => volumes.remove(guest)))
    expect(await volumes.list()).to.deep.equal([])
  })

  it('cannot be created in a full pool, but can be deleted there, and a deletion frees space', async () => {
    const small = testStorage(`${scratch.path}/small`, 1)
    mkdirSync(`${scratch.path}/small`)
    const pool = await openPool(small)
    const trash = new Trash(pool, log)
    const volumes = new Volumes(pool, trash)
    const guest = randomUUID()
    sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/small-1`)
    await volumes.clone(guest, 'small-1', 2 * gib)
    const fill = [
      '-c',
      `head -c 2G /dev/zero >big; mkdir m; cd m; for i in $(seq 30); do mkdir d$i && head -c 2000 /dev/urandom >d$i/f; done`,
    ]
    expect(() => execFileSync('sh', fill, { cwd: volumes.pathOf(guest), stdio: 'pipe' })).to.throw(/No space left/)
    const { totalBytes, usedBytes } = await readCapacity(pool, small)
    expect(usedBytes / totalBytes).to.be.above(0.95)
    await volumes.clone(randomUUID(), 'small-1', gib).catch((error: { code: string }) => {
      expect(error.code).to.equal('storage_full')
    })
    await volumes.remove(guest)
    await trash.settled()
    expect(readdirSync(pool.trash)).to.deep.equal([])
    sh('btrfs', 'filesystem', 'sync', pool.path)
    await waitFor(async () => (await readCapacity(pool, small)).usedBytes < totalBytes / 2, { what: 'space' })
    await volumes.clone(guest, 'small-1', gib)
    await removePool(small, log)
  })
})

/** Nests directories until their path has at least `bytes` bytes, and calls `atBottom` in the deepest one. */
function makeDeep(path: string, bytes: number, atBottom: () => void): void {
  const home = process.cwd()
  process.chdir(path)
  for (let length = 0; length < bytes; length += 201) {
    mkdirSync('d'.repeat(200))
    process.chdir('d'.repeat(200))
  }
  atBottom()
  process.chdir(home)
}
