import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { waitFor } from '../support/wait.js'

const name = 'btestx'
const directories = ['/etc', '/var/lib', '/run', '/var/log', '/opt'].map((base) => `${base}/berth-${name}`)
const etc = `/etc/berth-${name}`
const state = `/var/lib/berth-${name}`
const pool = `${state}/pool`
const loopFile = `${state}/pool.img`

const sh = (program: string, ...args: string[]): string => execFileSync(program, args, { encoding: 'utf8' })

function purge(): { code: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('scripts/down', ['--instance', name, '--purge'], {
    encoding: 'utf8',
  })
  return { code: status, output: stdout + stderr }
}

/** Everything on the host that names the instance, or that its configuration names. */
function traces(): string[] {
  const links = sh('ip', '-o', 'link').split('\n')
  return [
    ...directories.filter((directory) => existsSync(directory)),
    ...links.filter((line) => /: (btestxbr|xbt\d+)[:@]/.test(line)),
    ...sh('nft', 'list', 'tables')
      .split('\n')
      .filter((line) => line.endsWith(' btestx')),
    ...sh('losetup', '-l')
      .split('\n')
      .filter((line) => line.includes(state)),
    ...readFileSync('/proc/self/mounts', 'utf8')
      .split('\n')
      .filter((line) => line.includes(state)),
  ]
}

function writeConfigs(): void {
  mkdirSync(etc, { recursive: true })
  const network = '  bridge: btestxbr\n  table: btestx\n  interface_prefix: xbt\n'
  writeFileSync(
    join(etc, 'agent.yaml'),
    `state_dir: ${state}/agent\nrun_dir: /run/berth-${name}/agent\nnetwork:\n${network}storage:\n  pool: ${pool}\n  loop_file: ${loopFile}\n`,
  )
  writeFileSync(
    join(etc, 'gateway.yaml'),
    `state_dir: ${state}/gateway\nrun_dir: /run/berth-${name}/gateway\n`,
  )
}

function makeNetwork(): void {
  sh('ip', 'link', 'add', 'btestxbr', 'type', 'bridge')
  for (const id of [1, 22]) {
    sh('ip', 'link', 'add', `xbt${id}`, 'type', 'veth', 'peer', 'name', `xbtp${id}`)
    sh('ip', 'link', 'set', `xbt${id}`, 'master', 'btestxbr')
  }
  for (const family of ['ip', 'inet', 'bridge']) sh('nft', 'add', 'table', family, 'btestx')
}

function makePool(): void {
  mkdirSync(pool, { recursive: true })
  sh('truncate', '-s', '300M', loopFile)
  sh('mkfs.btrfs', '-q', loopFile)
  sh('mount', '-o', 'loop', loopFile, pool)
  for (const folder of ['images', 'guests']) mkdirSync(join(pool, folder))
  sh('btrfs', '-q', 'subvolume', 'create', join(pool, 'images/debian-12'))
  sh('btrfs', '-q', 'subvolume', 'snapshot', '-r', join(pool, 'images/debian-12'), join(pool, 'guests/g1'))
}

/** Runs a program named like one of ours in a directory of the instance; it must go with the purge. */
function startStray(): number {
  const directory = join(state, 'gateway', 'redis')
  mkdirSync(directory, { recursive: true })
  const child = spawn('redis-server', ['--port', '0', '--save', '', '--unixsocket', join(directory, 's')], {
    cwd: directory,
    stdio: 'ignore',
    detached: true,
  })
  child.unref()
  return child.pid ?? 0
}

describe('scripts/down --purge without a working agent', function () {
  this.timeout(60_000)
  before(() => void purge()) // what an earlier, killed run left
  after(() => void purge())

  it('on a host without a trace: succeeds', () => {
    const { code, output } = purge()
    expect(code, output).to.equal(0)
    expect(traces()).to.deep.equal([])
  })

  it('with configuration only', () => {
    writeConfigs()
    expect(purge().code).to.equal(0)
    expect(traces()).to.deep.equal([])
  })

  it('network, pool, loop device, stray processes, files', async () => {
    writeConfigs()
    makeNetwork()
    makePool()
    const stray = startStray()
    await waitFor(() => existsSync(join(state, 'gateway/redis/s')), { what: 'stray redis' })
    for (const directory of directories) mkdirSync(join(directory, 'agent'), { recursive: true })
    writeFileSync(`/run/berth-${name}/agent.pid`, '1 1\n') // of a process that is another's by now
    expect(traces()).to.have.length.greaterThan(10)
    const { code, output } = purge()
    expect(code, output).to.equal(0)
    expect(traces()).to.deep.equal([])
    await waitFor(
      () => !existsSync(`/proc/${stray}`) || readFileSync(`/proc/${stray}/stat`, 'utf8').includes(') Z '),
    )
  })

  it('a pool on a mount of somebody else’s: only what is Berth’s goes', () => {
    const base = '/tmp/btest-purge'
    sh('rm', '-rf', base)
    mkdirSync(join(base, 'pool'), { recursive: true })
    sh('truncate', '-s', '300M', join(base, 'own.img'))
    sh('mkfs.btrfs', '-q', join(base, 'own.img'))
    sh('mount', '-o', 'loop', join(base, 'own.img'), join(base, 'pool'))
    try {
      mkdirSync(join(base, 'pool/guests'))
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/guests/g1'))
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/guests/g1/nested'))
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/mine'))
      writeConfigs()
      const config = readFileSync(join(etc, 'agent.yaml'), 'utf8').replace(pool, join(base, 'pool'))
      writeFileSync(join(etc, 'agent.yaml'), config)
      const { code, output } = purge()
      expect(code, output).to.equal(0)
      expect(existsSync(join(base, 'pool/mine'))).to.equal(true)
      expect(existsSync(join(base, 'pool/guests'))).to.equal(false)
    } finally {
      sh('umount', join(base, 'pool'))
      sh('rm', '-rf', base)
    }
  })
})
