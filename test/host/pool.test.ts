import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'chai'
import { pino } from 'pino'
import { openPool, readCapacity, type Pool } from '../../agent/storage/pool.js'
import { removePool } from '../../agent/storage/remove.js'
import { moduleUrl, nodeEval } from '../support/programs.js'
import { refusal } from '../support/refusal.js'
import { loopsBelow, mountsBelow, scratchDirectory, testStorage } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const log = pino({ level: 'silent' })
const mib = 1024 ** 2
const gib = 1024 ** 3

describe('the storage pool', function () {
  const scratch = scratchDirectory('btest-pool')
  const config = testStorage(scratch.path)
  const { pool: poolPath, loop_file: loopFile } = config

  after(() => scratch.wipe())
  afterEach(() => removePool(config, log))

  function expectPool(pool: Pool): void {
    expect(mountsBelow(scratch.path)).to.deep.equal([poolPath])
    expect(loopsBelow(scratch.path)).to.have.length(1)
    expect(readdirSync(poolPath).sort()).to.deep.equal(['downloads', 'guests', 'images', 'snapshots', 'trash'])
    for (const folder of [pool.guests, pool.images, pool.trash]) expect(statSync(folder).mode & 0o777).to.equal(0o700)
  }

  it('is created only once, and can be removed without a trace', async () => {
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
    expect(mountsBelow(scratch.path)).to.deep.equal([])
    await waitFor(() => loopsBelow(scratch.path).length === 0, { what: 'no loop' })
  })

  it('is available with its content after a reboot', async () => {
    const pool = await openPool(config)
    writeFileSync(`${pool.path}/mark`, 'kept')
    sh('umount', poolPath)
    // Another program may create a mount namespace with a copy of this mount. The device is then detached later.
    await waitFor(() => loopsBelow(scratch.path).length === 0, { what: 'the kernel detaches the loop' })
    rmSync(poolPath, { recursive: true })
    await openPool(config)
    expect(readdirSync(poolPath)).to.include('mark')
  })

  for (const [name, prepare] of [
    ['an incomplete loop file exists', () => writeFileSync(`${loopFile}.new`, 'half')],
    ['the loop file is not formatted', () => (writeFileSync(loopFile, ''), truncateSync(loopFile, 4 * gib))],
    [
      'the loop file is formatted but not mounted',
      () => (writeFileSync(loopFile, ''), truncateSync(loopFile, 4 * gib), sh('mkfs.btrfs', '-q', loopFile)),
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
      'the loop file is mounted but has no quotas and folders',
      () => (
        writeFileSync(loopFile, ''),
        truncateSync(loopFile, 4 * gib),
        sh('mkfs.btrfs', '-q', loopFile),
        mkdirSync(poolPath),
        sh('mount', '-o', 'loop', loopFile, poolPath)
      ),
    ],
  ] as const)
    it(`is completed if ${name}`, async () => {
      prepare()
      const pool = await openPool(config)
      expectPool(pool)
      expect(await pool.view.quotaMode()).to.not.equal('off')
    })

  it('is completed at the next start of the agent if the agent is killed at any moment of the creation', async () => {
    const script = `import { openPool } from '${moduleUrl('agent/storage/pool.ts')}'
      console.log('begin'); await openPool(${JSON.stringify(config)})`
    for (const delayMs of [0, 15, 30, 50, 80, 120]) {
      const child = spawn('node', nodeEval(script), {
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      const ended = new Promise((resolve) => child.once('exit', resolve))
      await new Promise((resolve) => child.stdout.once('data', resolve))
      await sleep(delayMs)
      child.kill('SIGKILL')
      await ended
      expectPool(await openPool(config))
      await removePool(config, log)
      await waitFor(() => loopsBelow(scratch.path).length === 0, { what: 'no loop' })
    }
  })

  it('never overwrites data of other programs when it is created', async () => {
    writeFileSync(loopFile, '')
    truncateSync(loopFile, 64 * mib)
    sh('mkfs.ext4', '-q', loopFile)
    expect(await refusal(openPool(config))).to.match(/storage_unusable.*ext4/)
    expect(sh('blkid', '-o', 'value', '-s', 'TYPE', loopFile).trim()).to.equal('ext4')
  })

  it('is never created on a mount of another program, or in a directory with files', async () => {
    mkdirSync(poolPath)
    sh('mount', '-t', 'tmpfs', 'btest', poolPath)
    expect(await refusal(openPool(config))).to.match(/tmpfs/)
    sh('umount', poolPath)
    writeFileSync(`${poolPath}/theirs`, '')
    expect(await refusal(openPool(config))).to.match(/not empty/)
    expect(existsSync(loopFile)).to.equal(false)
    rmSync(poolPath, { recursive: true })
  })

  it('can use an empty device, and a purge deletes only Berth’s own folders on this device', async () => {
    const file = `${scratch.path}/disk`
    writeFileSync(file, '')
    truncateSync(file, 2 * gib)
    const device = sh('losetup', '--find', '--show', file).trim()
    const onDevice = { ...config, device }
    const pool = await openPool(onDevice)
    expect((await openPool(onDevice)).path).to.equal(poolPath)
    sh('btrfs', '-q', 'subvolume', 'create', `${pool.images}/t`)
    for (const guest of [randomUUID(), randomUUID()]) {
      mkdirSync(`${pool.snapshots}/${guest}`)
      sh('btrfs', '-q', 'subvolume', 'snapshot', '-r', `${pool.images}/t`, `${pool.snapshots}/${guest}/s1`)
      sh('btrfs', '-q', 'subvolume', 'create', `${pool.guests}/${guest}.next`)
    }
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

  it('is a sparse file of nine tenths of the free space by default', async () => {
    const pool = await openPool({ ...config, loop_size_gb: 0 })
    const { totalBytes, usedBytes } = await readCapacity(pool, config)
    expect(statSync(loopFile).size).to.be.above(gib)
    expect(statSync(loopFile).blocks * 512).to.be.below(100 * mib)
    expect(totalBytes).to.equal(statSync(loopFile).size)
    expect(usedBytes).to.be.within(0, totalBytes / 10)
  })
})
