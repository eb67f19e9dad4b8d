import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ResticRepositories } from '../../agent/backups/repositories.js'
import { programsBelow } from '../support/host/backup-host.js'
import { nodeArguments } from '../support/programs.js'
import { silentLog } from '../support/gateway/redis.js'
import { scratchDirectory } from '../support/scratch.js'
import { TestSftp } from '../support/host/sftp-server.js'
import { waitFor } from '../support/wait.js'

const id = '00000000-0000-4000-8000-00000000000c'

describe('a backup whose agent is killed', function () {
  const scratch = scratchDirectory('btest-backup-killed')
  const [runs, tree] = [join(scratch.path, 'runs'), join(scratch.path, 'tree')]
  let sftp: TestSftp

  before(async () => {
    mkdirSync(tree)
    execFileSync('dd', ['if=/dev/urandom', `of=${join(tree, 'noise')}`, 'bs=1M', 'count=96'], {
      stdio: 'ignore',
    })
    sftp = await TestSftp.start(join(scratch.path, 'sftp'))
  })
  after(async () => {
    await sftp?.close()
    scratch.wipe()
  })

  const send = (): ChildProcess =>
    spawn(
      process.execPath,
      nodeArguments('test/support/host/backup-main.ts', runs, tree, id, JSON.stringify(sftp.place)),
      {
        stdio: ['ignore', 'ignore', 'inherit'],
      },
    )
  const data = (): number => {
    const folder = join(sftp.place.path, id, 'data')
    return existsSync(folder) ? readdirSync(folder).flatMap((name) => readdirSync(join(folder, name))).length : 0
  }

  it('leaves no process and no key file, and is completed when the agent restarts', async () => {
    const killed = send()
    await waitFor(() => data() > 0, { what: 'data at the target' })
    expect(programsBelow(runs).join()).to.include('restic')
    killed.kill('SIGKILL')
    await waitFor(() => programsBelow(runs).length === 0, { what: 'the end of restic and ssh' })
    const left = new ResticRepositories({
      directory: runs,
      parallel: 1,
      patienceMs: 5000,
      memoryBytes: 2 ** 31,
      log: silentLog,
    })
    await left.sweep()
    expect(existsSync(runs)).to.equal(false)

    const next = send()
    expect(await new Promise((done) => next.once('exit', done))).to.equal(0)
    expect(readdirSync(runs)).to.deep.equal([])
  })
})
