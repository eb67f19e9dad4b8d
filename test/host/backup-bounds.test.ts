import { execFileSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { pino } from 'pino'
import type { Repository, WorkContext } from '../../agent/backups/contract.js'
import { planTags } from '../../agent/backups/plan-restic.js'
import { ResticRepositories } from '../../agent/backups/repositories.js'
import { TestS3 } from '../support/host/s3-server.js'
import { sh } from '../support/sh.js'
import { scratchDirectory } from '../support/scratch.js'

const mib = 1024 ** 2
const boundBytes = 512 * mib

describe('restic with a hostile backup target', function () {
  const scratch = scratchDirectory('btest-bb')
  const watch: WorkContext = { signal: new AbortController().signal, report: () => undefined }
  const log = pino({ level: process.env['BTEST_LOG'] ?? 'silent' }, pino.destination(2))
  let s3: TestS3
  let repositories: ResticRepositories

  before(async () => {
    s3 = await TestS3.start(join(scratch.path, 's3'))
    const directory = join(scratch.path, 'work')
    repositories = new ResticRepositories({ directory, patienceMs: 3000, memoryBytes: boundBytes, parallel: 2, log })
    mkdirSync(join(scratch.path, 'tree'))
    writeFileSync(join(scratch.path, 'tree/file'), 'kept')
  })
  afterEach(() => (s3.twist = () => false))
  after(async () => {
    await s3?.close()
    scratch.wipe()
  })

  const at = (): Repository => {
    const place = { $case: 's3', value: s3.place } as const
    const password = 'the-password-of-the-vault'
    return {
      guest: randomUUID(),
      target: { id: randomUUID(), name: 'vault', password, verifyPercent: 100, place },
    }
  }
  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )

  it('stays within its memory limit, no matter what the target answers', async () => {
    const repository = at()
    const sent = {
      id: randomUUID(),
      tree: join(scratch.path, 'tree'),
      note: { createdBy: '', description: '', scheduled: false },
    }
    await repositories.send(repository, sent, watch)
    let peakBytes = 0
    s3.twist = ({ method, url }, response) => {
      if (method !== 'GET' || !url?.includes('/config')) return false
      const chunk = Buffer.alloc(mib)
      const wholeBytes = 4 * boundBytes
      response.writeHead(200, {
        'content-length': wholeBytes,
        etag: '"a"',
        'last-modified': new Date().toUTCString(),
      })
      let left = wholeBytes / chunk.length
      const more = (): void => {
        peakBytes = Math.max(peakBytes, residentBytes(s3.place.endpoint))
        while (left-- > 0) if (!response.write(chunk)) return void response.once('drain', more)
        response.end()
      }
      more()
      return true
    }
    expect(await codeOf(repositories.list(repository, watch))).to.equal('backup_memory')
    expect(peakBytes).to.be.within(mib, 1.25 * boundBytes) // the limit does not include the program's own memory
  })

  it('restores sparse files even if their total size exceeds the pool', async () => {
    const pool = join(scratch.path, 'pool')
    mkdirSync(pool)
    sh('truncate', '-s', '700M', `${pool}.img`)
    sh('mkfs.btrfs', '-q', `${pool}.img`)
    sh('mount', '-o', 'loop', `${pool}.img`, pool)
    for (const name of ['volume', 'fetched']) sh('btrfs', '-q', 'subvolume', 'create', join(pool, name))
    const run = (name: string, script: string): string =>
      execFileSync('/bin/bash', ['-euc', script], { cwd: join(pool, name), encoding: 'utf8' })
    run(
      'volume',
      `mkdir 'odd*[1]'; cd 'odd*[1]'; truncate -s 1200M sparse; printf end >>sparse
       dd if=/dev/urandom of=sparse bs=1M count=5 seek=500 conv=notrunc status=none
       head -c 130M /dev/urandom >data; for i in 1 2 3 4; do cp --reflink=always data copy$i; done
       setfattr -n user.note -v kept sparse; chown 12:34 sparse; chmod 4750 sparse; touch -d @1.123456789 sparse copy2`,
    )
    const describe = `find . -printf '%p %y %s %m %U:%G %T@ %n\\n' | sort; getfattr -Rd . ; find . -type f | sort | xargs -d '\\n' cat | openssl dgst -sha256`
    const directory = join(scratch.path, 'large')
    const fetching = new ResticRepositories({ directory, patienceMs: 3000, memoryBytes: 2 ** 31, parallel: 1, log })
    const [id, target] = [randomUUID(), join(scratch.path, 'vault')]
    mkdirSync(target)
    const place = { $case: 'local', value: { path: target } } as const
    const vault = { id, name: 'vault', password: 'the-password-of-the-vault', verifyPercent: 0, place }
    const note = { createdBy: '', description: '', scheduled: false, usedBytes: 140 * mib }
    await fetching.send({ guest: id, target: vault }, { id, tree: join(pool, 'volume'), note }, watch)
    const size = await fetching.readSize({ guest: id, target: vault }, id, watch)
    expect(size.sizeBytes).to.be.above(1700 * mib)
    expect(size.savedBytes).to.be.within(1500 * mib, size.sizeBytes - 100 * mib)
    const fetched = { id, tree: join(pool, 'fetched') }
    expect(await codeOf(fetching.fetch({ guest: id, target: vault }, fetched, watch))).to.equal('done')
    expect(run('fetched', describe)).to.equal(run('volume', describe))
    sh('sync', '-f', pool)
    const used = (name: string): number =>
      Number(
        sh('btrfs', 'filesystem', 'du', '-s', '--raw', join(pool, name))
          .trim()
          .split('\n')
          .at(-1)!
          .trim()
          .split(/\s+/)[2],
      ) // the column "Set shared" contains the shared bytes
    expect(used('fetched')).to.be.within(100 * mib, 140 * mib)
    sh('umount', pool)
  })

  const password = 'the-password-of-the-vault'
  const resticIn = (directory: string, repository: string, ...args: string[]): unknown =>
    execFileSync('restic', ['--repo', repository, '--no-cache', ...args], {
      cwd: directory,
      stdio: 'ignore',
      env: { ...process.env, RESTIC_PASSWORD: password },
    })

  it('reserves the whole length of all files before its first write if their recorded layout is unusable', async () => {
    const [target, guest, source] = [join(scratch.path, 'damaged'), randomUUID(), join(scratch.path, 'with-layout')]
    for (const folder of [target, `${source}/volume`]) mkdirSync(folder, { recursive: true })
    writeFileSync(`${source}/volume/file`, 'kept')
    writeFileSync(`${source}/layout`, 'F\0file')
    const place = { $case: 'local', value: { path: target } } as const
    const repository = { guest, target: { id: randomUUID(), name: 'vault', password, verifyPercent: 0, place } }
    const restic = resticIn.bind(undefined, source, join(target, guest))
    restic('init')
    for (const [savedBytes, files, calls] of [
      [7, ['volume', 'layout'], 1],
      [7, ['volume'], 1],
      [0, ['volume'], 0],
    ] as const) {
      const id = randomUUID()
      const tags = planTags(id, { createdBy: '', description: '', scheduled: false, usedBytes: 9, savedBytes })
      restic('backup', ...tags.flatMap((tag) => ['--tag', tag]), ...files)
      const tree = join(scratch.path, id)
      mkdirSync(tree)
      const found: string[][] = []
      const makeWholeRoom = async (): Promise<void> => void found.push(readdirSync(tree))
      expect(await codeOf(repositories.fetch(repository, { id, tree, makeWholeRoom }, watch))).to.equal('done')
      expect(found).to.deep.equal(Array.from({ length: calls }, () => []))
      expect(readdirSync(tree)).to.deep.equal(['file'])
    }
  })

  it('writes nothing outside the directory of the restored volume', async () => {
    const [target, guest, id] = [join(scratch.path, 'local'), randomUUID(), randomUUID()]
    const [source, tree, small] = ['source', 'fetched', 'small'].map((name) => join(scratch.path, name))
    for (const folder of [target, `${source}/volume`, tree!, small!]) mkdirSync(folder, { recursive: true })
    writeFileSync(`${source}/volume/file`, 'kept')
    writeFileSync(`${source}/planted`, randomBytes(24 * mib))
    const restic = resticIn.bind(undefined, source!, join(target, guest))
    restic('init')
    restic('backup', '--tag', id, 'volume', 'planted')
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'btest', small!])
    try {
      const options = { patienceMs: 3000, memoryBytes: boundBytes, parallel: 1, log }
      const place = { $case: 'local', value: { path: target } } as const
      const repository = {
        guest,
        target: { id: randomUUID(), name: 'vault', password, verifyPercent: 0, place },
      }
      const fetching = new ResticRepositories({ ...options, directory: join(small!, 'work') })
      expect(await codeOf(fetching.fetch(repository, { id, tree: tree! }, watch))).to.equal('done')
      expect(readdirSync(tree!)).to.deep.equal(['file'])
    } finally {
      execFileSync('umount', [small!])
    }
  })
})

/** Resident memory, in bytes, of the restic process whose target is the server at this URL. */
function residentBytes(endpoint: string): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(endpoint)) continue
      const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
      return Number(kib ?? 0) * 1024
    } catch {
      // the process ended in the meantime
    }
  return 0
}
