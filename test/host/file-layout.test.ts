import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { listLargeFiles } from '../../agent/backups/large-files.js'
import { applyLayout, readLayout } from '../../agent/host/disk/file-layout.js'
import { sh } from '../support/sh.js'
import { scratchDirectory } from '../support/scratch.js'

const mib = 1024 ** 2

describe('the recorded layout of a file tree', function () {
  const scratch = scratchDirectory('btest-fl')
  const { signal } = new AbortController()
  const pool = join(scratch.path, 'pool')
  const layout = join(scratch.path, 'layout')
  const run = (tree: string, script: string): string =>
    execFileSync('/bin/bash', ['-euc', script], { cwd: join(pool, tree), encoding: 'utf8' })
  const contents = `find . -type f | sort | xargs md5sum; find . -printf '%p %s %m %T@\\n' | sort`
  const files = (): string[] => readFileSync(layout, 'latin1').match(/(?<=^F\0|\0F\0)[^\0]+/g) ?? []

  before(() => {
    mkdirSync(pool)
    sh('truncate', '-s', '600M', `${pool}.img`)
    sh('mkfs.btrfs', '-q', `${pool}.img`)
    sh('mount', '-o', 'loop', `${pool}.img`, pool)
    sh('btrfs', '-q', 'subvolume', 'create', join(pool, 'volume'))
    // Each of the files a to d contains the same block 3,000 times. So many extents need the longest layout.
    run(
      'volume',
      `perl -e '
         open(my $block, "+>", "block") or die; print $block "b" x 4096; $block->flush;
         for my $name ("a".."d") {
           open(my $file, ">", $name) or die;
           for my $index (0 .. 2999) {
             ioctl($file, 0x4020940D, pack("q Q3", fileno $block, 0, 4096, $index * 8192)) or die "$!";
           }
         }'
       truncate -s 140M sparse; printf end >>sparse
       head -c 1M /dev/urandom >data; cp --reflink=always data copy; ln data hard
       mkdir packed; btrfs property set packed compression zstd; yes words | head -c 2M >packed/text
       cp --reflink=always packed/text packed/copy`,
    )
    sh('sync', '-f', pool)
  })
  after(() => {
    sh('umount', pool)
    scratch.wipe()
  })

  async function restore(name: string): Promise<number> {
    sh('btrfs', '-q', 'subvolume', 'create', join(pool, name))
    sh('cp', '-a', '--reflink=never', '--sparse=never', `${join(pool, 'volume')}/.`, join(pool, name))
    sh('sync', '-f', pool)
    await applyLayout(join(pool, name), { layout, image: undefined, apart: [] }, signal)
    expect(run(name, contents)).to.equal(run('volume', contents))
    sh('sync', '-f', pool)
    const [line] = sh('btrfs', 'filesystem', 'du', '-s', '--raw', join(pool, name)).trim().split('\n').slice(-1)
    const [, exclusive, shared] = line!.trim().split(/\s+/).map(Number)
    sh('btrfs', '-q', 'subvolume', 'delete', '-c', join(pool, name))
    sh('btrfs', 'filesystem', 'sync', pool)
    return exclusive! + shared!
  }

  it('lists every file with shared data, holes or compression', async () => {
    const { savedBytes, movedBytes } = await readLayout(join(pool, 'volume'), layout, signal)
    expect(savedBytes).to.be.within(139 * mib, 141 * mib)
    expect(movedBytes).to.be.within(mib, 4 * mib)
    expect(files().sort()).to.include.members(['a', 'b', 'c', 'd', 'packed/copy', 'packed/text', 'sparse'])
    expect(files().filter((name) => ['data', 'copy', 'hard'].includes(name))).to.have.length(1)
    expect(await listLargeFiles(readFileSync(layout, 'latin1'))).to.have.length(1)
    expect(await restore('whole')).to.be.below(4 * mib)
  })

  it('counts the holes of at most 500 files, and ignores the holes of files whose names are not valid UTF-8', async () => {
    run('volume', `truncate -s 140M $'no\\xffutf8'; printf end >>$'no\\xffutf8'`)
    const { savedBytes } = await readLayout(join(pool, 'volume'), layout, signal)
    expect(savedBytes).to.be.within(139 * mib, 141 * mib)
    expect(files().slice(1)).to.include('no\xffutf8')
    run(
      'volume',
      `rm $'no\\xffutf8'; mkdir many; for i in {1..510}; do truncate -s 130M many/$i; echo end >>many/$i; done`,
    )
    const { savedBytes: ofMany } = await readLayout(join(pool, 'volume'), layout, signal)
    expect(ofMany / mib).to.be.within(500 * 129, 500 * 130 + 10)
    expect(await listLargeFiles(readFileSync(layout, 'latin1'))).to.have.length(500)
    run('volume', 'rm -r many')
  })

  it('counts at most 384 MiB of a large compressed file with holes as additional space for its restore', async () => {
    run('volume', 'yes words | head -c 500M >packed/large; truncate -s 700M packed/large')
    const { movedBytes } = await readLayout(join(pool, 'volume'), layout, signal)
    expect((await listLargeFiles(readFileSync(layout, 'latin1')))?.map(({ path }) => path)).to.include('packed/large')
    expect(movedBytes).to.be.within(384 * mib, 388 * mib)
    run('volume', 'rm packed/large')
  })

  it('omits some shared ranges, but no large holes, if the complete layout would need too much memory', async () => {
    await readLayout(join(pool, 'volume'), layout, signal, { memoryBytes: 700_000, writtenBytes: 48 * mib })
    expect(files()).to.include.members(['sparse'])
    expect(files().filter((name) => /^[a-d]$/.test(name))).to.have.length(1)
    expect(await restore('little-memory')).to.be.below(80 * mib)
  })

  it('lists only the name of a file with large holes if its ranges would need too much memory', async () => {
    run(
      'volume',
      `perl -e '
         open(my $file, ">", "fragments") or die;
         for my $index (0 .. 999) { sysseek($file, $index * 262144, 0); syswrite($file, "f" x 4096) }'`,
    )
    sh('sync', '-f', pool)
    const bounds = { memoryBytes: 400_000, writtenBytes: 48 * mib }
    const { savedBytes } = await readLayout(join(pool, 'volume'), layout, signal, bounds)
    expect((await listLargeFiles(readFileSync(layout, 'latin1')))?.map(({ path }) => path)).to.include('fragments')
    expect(readFileSync(layout, 'latin1').split('F\0fragments\0')[1]).to.not.match(/\0H\0/)
    expect(savedBytes).to.be.within(380 * mib, 390 * mib)
    run('volume', 'rm fragments')
  })

  it('never exceeds its size limit', async () => {
    const writtenBytes = 150_000
    await readLayout(join(pool, 'volume'), layout, signal, { memoryBytes: 256 * mib, writtenBytes })
    expect(statSync(layout).size).to.be.within(1000, writtenBytes)
    expect(files()).to.include('sparse')
  })

  it('can be empty, and the restored file tree is still complete', async () => {
    writeFileSync(layout, '')
    await restore('empty')
  })
})
