import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'chai'
import { pino } from 'pino'
import { BtrfsDisks } from '../../agent/storage/disks.js'
import { openPool, readCapacity, type Pool } from '../../agent/storage/pool.js'
import { removePool } from '../../agent/storage/remove.js'
import { Trash } from '../../agent/storage/trash.js'
import { waitFor } from '../support/wait.js'
import { loopsBelow, mountsBelow, scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'

const log = pino({ level: 'silent' })
const mib = 1024 ** 2
const gib = 1024 ** 3
async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => expect.fail('was not refused'),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  )
}

describe('storage', function () {
  this.timeout(60_000)
  const scratch = scratchDirectory('btest-storage')
  const config = testStorage(scratch.path)
  const { pool: poolPath, loop_file: loopFile } = config

  after(() => scratch.wipe())

  function expectPool(pool: Pool): void {
    expect(mountsBelow(scratch.path)).to.deep.equal([poolPath])
    expect(loopsBelow(scratch.path)).to.have.length(1)
    expect(readdirSync(poolPath).sort()).to.deep.equal(['guests', 'images', 'trash'])
    for (const folder of [pool.guests, pool.images, pool.trash])
      expect(statSync(folder).mode & 0o777).to.equal(0o700)
  }

  describe('pool', () => {
    afterEach(() => removePool(config, log))

    it('is made from nothing, again changes nothing, and goes without a trace', async () => {
      expectPool(await openPool(config))
      const { ino } = statSync(loopFile)
      const pool = await openPool(config)
      expectPool(pool)
      expect(statSync(loopFile).ino).to.equal(ino)
      expect(statSync(loopFile).blocks * 512).to.be.below(100 * mib)
      expect(await pool.view.quotaMode()).to.not.equal('off')
      await removePool(config, log)
      await removePool(config, log)
      expect(readdirSync(scratch.path)).to.deep.equal([])
      expect([...mountsBelow(scratch.path), ...loopsBelow(scratch.path)]).to.deep.equal([])
    })

    it('comes back after a reboot with what was in it', async () => {
      const pool = await openPool(config)
      writeFileSync(`${pool.path}/mark`, 'kept')
      sh('umount', poolPath)
      // Whoever has a copy of this mount, as new namespaces do for a moment, delays it.
      await waitFor(() => loopsBelow(scratch.path).length === 0, { what: 'the kernel detaches the loop' })
      rmSync(poolPath, { recursive: true })
      await openPool(config)
      expect(readdirSync(poolPath)).to.include('mark')
    })

    for (const [name, prepare] of [
      ['an unfinished loop file lies there', () => writeFileSync(`${loopFile}.new`, 'half')],
      [
        'the loop file is not formatted',
        () => (writeFileSync(loopFile, ''), truncateSync(loopFile, 4 * gib)),
      ],
      [
        'it is formatted but not mounted',
        () => (
          writeFileSync(loopFile, ''),
          truncateSync(loopFile, 4 * gib),
          sh('mkfs.btrfs', '-q', loopFile)
        ),
      ],
      [
        'a loop device is attached but not mounted',
        () => (
          writeFileSync(loopFile, ''),
          truncateSync(loopFile, 4 * gib),
          sh('mkfs.btrfs', '-q', loopFile),
          sh('losetup', '--find', loopFile)
        ),
      ],
      [
        'it is mounted, without quotas and folders',
        () => (
          writeFileSync(loopFile, ''),
          truncateSync(loopFile, 4 * gib),
          sh('mkfs.btrfs', '-q', loopFile),
          mkdirSync(poolPath),
          sh('mount', '-o', 'loop', loopFile, poolPath)
        ),
      ],
    ] as const)
      it(`is finished when ${name}`, async () => {
        prepare()
        const pool = await openPool(config)
        expectPool(pool)
        expect(await pool.view.quotaMode()).to.not.equal('off')
      })

    it('survives a kill at any moment of its making', async () => {
      const script = `import { openPool } from '${process.cwd()}/agent/storage/pool.ts'
        console.log('begin'); await openPool(${JSON.stringify(config)})`
      for (const delayMs of [0, 15, 30, 50, 80, 120]) {
        const child = spawn('node', ['--import=tsx', '--input-type=module', '-e', script], {
          stdio: ['ignore', 'pipe', 'ignore'],
        })
        const ended = new Promise((resolve) => child.once('exit', resolve))
        await new Promise((resolve) => child.stdout.once('data', resolve))
        await sleep(delayMs)
        child.kill('SIGKILL')
        await ended
        expectPool(await openPool(config))
        await removePool(config, log)
        expect(loopsBelow(scratch.path)).to.deep.equal([])
      }
    })

    it('refuses data of others, and leaves it as it is', async () => {
      writeFileSync(loopFile, '')
      truncateSync(loopFile, 64 * mib)
      sh('mkfs.ext4', '-q', loopFile)
      expect(await refusal(openPool(config))).to.match(/storage_unusable.*ext4/)
      expect(sh('blkid', '-o', 'value', '-s', 'TYPE', loopFile).trim()).to.equal('ext4')
    })

    it('refuses a foreign mount and a used directory', async () => {
      mkdirSync(poolPath)
      sh('mount', '-t', 'tmpfs', 'btest', poolPath)
      expect(await refusal(openPool(config))).to.match(/tmpfs/)
      sh('umount', poolPath)
      writeFileSync(`${poolPath}/theirs`, '')
      expect(await refusal(openPool(config))).to.match(/not empty/)
      expect(existsSync(loopFile)).to.equal(false)
      rmSync(poolPath, { recursive: true })
    })

    it('formats a blank device, and purges only its own folders there', async () => {
      const file = `${scratch.path}/disk`
      writeFileSync(file, '')
      truncateSync(file, 2 * gib)
      const device = sh('losetup', '--find', '--show', file).trim()
      const onDevice = { ...config, device }
      const pool = await openPool(onDevice)
      expect((await openPool(onDevice)).path).to.equal(poolPath)
      sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/t`)
      writeFileSync(`${pool.path}/theirs`, '')
      await removePool(onDevice, log)
      expect(mountsBelow(scratch.path)).to.deep.equal([])
      mkdirSync(poolPath, { recursive: true })
      sh('mount', device, poolPath)
      expect(readdirSync(poolPath)).to.deep.equal(['theirs'])
      sh('umount', poolPath)
      sh('losetup', '--detach', device)
      rmSync(file)
      rmSync(poolPath, { recursive: true })
    })

    it('takes nine tenths of what is free by default, sparse', async () => {
      const pool = await openPool({ ...config, loop_size_gb: 0 })
      const { totalBytes, usedBytes } = await readCapacity(pool, config)
      expect(statSync(loopFile).size).to.be.above(gib)
      expect(statSync(loopFile).blocks * 512).to.be.below(100 * mib)
      expect(totalBytes).to.equal(statSync(loopFile).size)
      expect(usedBytes).to.be.within(0, totalBytes / 10)
    })
  })

  describe('disks', () => {
    let pool: Pool
    let trash: Trash
    let disks: BtrfsDisks

    before(async () => {
      pool = await openPool(config)
      trash = new Trash(pool, log)
      disks = new BtrfsDisks(pool, trash)
      const image = `${pool.images}/small-1`
      sh('btrfs', '-q', 'subvolume', 'create', image)
      mkdirSync(`${image}/etc`)
      writeFileSync(`${image}/etc/hostname`, 'template\n')
      writeFileSync(`${image}/data`, Buffer.alloc(8 * mib, 1))
      sh('btrfs', 'property', 'set', '-ts', image, 'ro', 'true')
    })
    after(() => removePool(config, log))
    afterEach(async () => {
      for (const guest of await disks.list()) await disks.remove(guest)
      await trash.settled()
      await trash.sweep()
      expect(readdirSync(pool.trash)).to.deep.equal([])
    })

    const qgroups = (): string[] =>
      readdirSync(`/sys/fs/btrfs/${pool.view.fsid}/qgroups`).filter((name) => name.startsWith('0_'))
    const write = (path: string, bytes: number): void =>
      void sh('dd', 'if=/dev/zero', `of=${path}`, 'bs=1M', `count=${bytes / mib}`, 'conv=fsync')

    it('are clones that can be written to, as often as asked for one', async () => {
      const guest = randomUUID()
      for (let i = 0; i < 2; i++) await disks.clone(guest, 'small-1', gib)
      expect(await disks.list()).to.deep.equal([guest])
      writeFileSync(`${disks.rootfsPath(guest)}/etc/hostname`, 'mine\n')
      await disks.remove(guest)
      await disks.remove(guest)
      expect(await disks.list()).to.deep.equal([])
      expect(existsSync(`${pool.images}/small-1/etc/hostname`)).to.equal(true)
    })

    it('are bounded: a guest that writes beyond gets EDQUOT, neighbours do not', async () => {
      const [guest, neighbour] = [randomUUID(), randomUUID()]
      await disks.clone(guest, 'small-1', 64 * mib)
      await disks.clone(neighbour, 'small-1', gib)
      expect(() => write(`${disks.rootfsPath(guest)}/big`, 128 * mib)).to.throw(/quota exceeded/i)
      expect(statSync(`${disks.rootfsPath(guest)}/big`).size).to.be.within(32 * mib, 64 * mib)
      write(`${disks.rootfsPath(neighbour)}/big`, 128 * mib)
      rmSync(`${disks.rootfsPath(guest)}/big`)
      await disks.resize(guest, 256 * mib)
      write(`${disks.rootfsPath(guest)}/big`, 128 * mib)
      sh('btrfs', 'filesystem', 'sync', pool.path)
      const usage = await disks.usage()
      expect(usage.get(guest)).to.be.within(128 * mib, 145 * mib)
      expect(usage.get(neighbour)).to.be.within(128 * mib, 145 * mib)
    })

    it('are bounded from their first moment, by classic quotas too', async () => {
      const guest = randomUUID()
      await disks.clone(guest, 'small-1', gib)
      expect(await disks.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([])
      const theirs = { ...config, pool: `${scratch.path}/theirs`, loop_file: `${scratch.path}/theirs.img` }
      writeFileSync(theirs.loop_file, '')
      truncateSync(theirs.loop_file, gib)
      sh('mkfs.btrfs', '-q', theirs.loop_file)
      const classic = await openPool(theirs)
      expect(await classic.view.quotaMode()).to.equal('classic')
      const classicDisks = new BtrfsDisks(classic, new Trash(classic, log))
      sh('btrfs', '-q', 'subvolume', 'create', `${classic.images}/small-1`)
      await classicDisks.clone(guest, 'small-1', 64 * mib)
      expect(await classicDisks.ensureLimits(new Map([[guest, 64 * mib]]))).to.deep.equal([])
      expect(() => write(`${classicDisks.rootfsPath(guest)}/big`, 128 * mib)).to.throw(/quota exceeded/i)
      expect(await classic.view.quotaInconsistent()).to.equal(false)
      await removePool(theirs, log)
    })

    it('get a bound that was lost', async () => {
      const guest = randomUUID()
      sh('btrfs', '-q', 'subvolume', 'snapshot', `${pool.images}/small-1`, disks.rootfsPath(guest))
      expect(await disks.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([guest])
      expect(await disks.ensureLimits(new Map([[guest, gib]]))).to.deep.equal([])
      await disks.clone(guest, 'small-1', 2 * gib)
      expect(await disks.ensureLimits(new Map([[guest, 2 * gib]]))).to.deep.equal([])
    })

    it('of a template that is not there are refused', async () => {
      for (const template of ['absent', '.building', '../guests', 'small-1/etc'])
        expect(await refusal(disks.clone(randomUUID(), template, gib))).to.match(/image_missing/)
      expect(() => disks.rootfsPath('../images')).to.throw(/not a uuid/)
      expect(await disks.list()).to.deep.equal([])
    })

    it('go with the subvolumes a guest made inside, however it named and locked them', async () => {
      const guest = randomUUID()
      await disks.clone(guest, 'small-1', gib)
      const root = disks.rootfsPath(guest)
      const odd = 'x\nID 256 gen 1 top level 5 path images\nsmall-1'
      for (const path of [`${root}/a`, `${root}/a/b`, `${root}/etc/${odd}`, `${root}/-rf`, `${root}/plain`])
        path.endsWith('plain') ? mkdirSync(path) : sh('btrfs', '-q', 'subvolume', 'create', path)
      chownSync(`${root}/a`, 1000, 1000)
      renameSync(`${root}/-rf`, Buffer.concat([Buffer.from(`${root}/plain/`), Buffer.from([0xff, 0xfe])]))
      makeDeep(`${root}/plain`, 5000, () => sh('btrfs', '-q', 'subvolume', 'create', 'deep'))
      for (const path of [`${root}/a/b`, `${root}/a`, `${root}/etc/${odd}`, root])
        sh('btrfs', 'property', 'set', '-ts', path, 'ro', 'true')
      await disks.remove(guest)
      expect(await disks.list()).to.deep.equal([])
      await trash.settled()
      expect(readdirSync(pool.trash)).to.deep.equal([])
      expect(existsSync(`${pool.images}/small-1/data`)).to.equal(true)
      sh('btrfs', 'filesystem', 'sync', pool.path)
      await waitFor(() => trash.sweep().then(() => qgroups().length === 2), {
        what: () => `only the top's and the image's qgroup: ${qgroups().join(' ')}`,
      })
    })

    it('that were in the trash when the power went are deleted by the sweep', async () => {
      const guest = randomUUID()
      await disks.clone(guest, 'small-1', gib)
      renameSync(disks.rootfsPath(guest), `${pool.trash}/${guest}.aa`)
      await new Trash(pool, log).sweep()
      expect(readdirSync(pool.trash)).to.deep.equal([])
    })

    it('in the trash are deleted once, however many sweep it while more come', async () => {
      const warnings: string[] = []
      const heard = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) })
      const shared = new Trash(pool, heard)
      const sharing = new BtrfsDisks(pool, shared)
      const guests = Array.from({ length: 12 }, () => randomUUID())
      for (const guest of guests) await sharing.clone(guest, 'small-1', gib)
      for (const guest of guests.slice(6)) renameSync(sharing.rootfsPath(guest), `${pool.trash}/${guest}.aa`)
      const removals = guests.slice(0, 6).map((guest) => sharing.remove(guest))
      await Promise.all([...removals, shared.sweep(), shared.sweep(), shared.sweep()])
      await shared.settled()
      expect([readdirSync(pool.trash), warnings]).to.deep.equal([[], []])
    })

    it('are made 100 at once', async () => {
      const guests = Array.from({ length: 100 }, () => randomUUID())
      const begin = performance.now()
      await Promise.all(guests.map((guest) => disks.clone(guest, 'small-1', gib)))
      expect(performance.now() - begin).to.be.below(10_000)
      expect(await disks.ensureLimits(new Map(guests.map((guest) => [guest, gib])))).to.deep.equal([])
      expect((await disks.usage()).size).to.equal(100)
      await Promise.all(guests.map((guest) => disks.remove(guest)))
      expect(await disks.list()).to.deep.equal([])
    })
  })

  it('that is full fails with a reason, still deletes, and heals', async () => {
    const small = { ...config, loop_size_gb: 1 }
    const pool = await openPool(small)
    const trash = new Trash(pool, log)
    const disks = new BtrfsDisks(pool, trash)
    const guest = randomUUID()
    sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/small-1`)
    await disks.clone(guest, 'small-1', 2 * gib)
    const fill = [
      '-c',
      `head -c 2G /dev/zero >big; mkdir m; cd m; for i in $(seq 30); do mkdir d$i && head -c 2000 /dev/urandom >d$i/f; done`,
    ]
    expect(() => execFileSync('sh', fill, { cwd: disks.rootfsPath(guest), stdio: 'pipe' })).to.throw(
      /No space left/,
    )
    const { totalBytes, usedBytes } = await readCapacity(pool, small)
    expect(usedBytes / totalBytes).to.be.above(0.95)
    await disks.clone(randomUUID(), 'small-1', gib).catch((error: { code: string }) => {
      expect(error.code).to.equal('storage_full')
    })
    await disks.remove(guest)
    await trash.settled()
    expect(readdirSync(pool.trash)).to.deep.equal([])
    sh('btrfs', 'filesystem', 'sync', pool.path)
    await waitFor(async () => (await readCapacity(pool, small)).usedBytes < totalBytes / 2, { what: 'space' })
    await disks.clone(guest, 'small-1', gib)
    await removePool(small, log)
  })
})

/** Directories inside each other, more than a path can name. */
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
