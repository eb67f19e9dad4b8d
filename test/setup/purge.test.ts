import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { markOf } from '../../agent/network/addresses/mark.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const name = 'btestx'
const directories = ['/etc', '/var/lib', '/run', '/var/log', '/opt'].map((base) => `${base}/berth-${name}`)
const etc = `/etc/berth-${name}`
const state = `/var/lib/berth-${name}`
const pool = `${state}/pool`
const loopFile = `${state}/pool.img`
/** An interface of the host's own, which stays. */
const uplink = 'btestxup'
const mark = markOf('btestx')
const others = markOf('btesty')

function purge(): { code: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('scripts/down', ['--instance', name, '--purge'], {
    encoding: 'utf8',
  })
  return { code: status, output: stdout + stderr }
}

/** Everything on the host that names the instance, or that its configuration names. */
function traces(): string[] {
  const links = sh('ip', '-o', 'link').split('\n')
  const list = (command: string): string[] =>
    sh('ip', ...command.split(' '))
      .split('\n')
      .filter(Boolean)
  return [
    ...directories.filter((directory) => existsSync(directory)),
    ...links.filter((line) => /: (btestxbr|xbt\d+u?)[:@]/.test(line)),
    ...list('-o -4 address show').filter((line) => line.includes(` metric ${mark.metric} `)),
    ...list('-N -6 neighbour show proxy').filter(
      (line) => / proto (\d+)/.exec(line)?.[1] === `${mark.protocol}`,
    ),
    ...list(`-N -6 route show table all proto ${mark.protocol}`),
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
  sh('ip', 'link', 'add', 'xbt22u', 'type', 'ifb')
  for (const family of ['ip', 'inet', 'bridge']) sh('nft', 'add', 'table', family, 'btestx')
}

/** Of the agent on the bridge and the host's own interface, and what another put there. */
function makeAddresses(): void {
  const ip = (command: string): string => sh('ip', ...command.split(' '))
  ip(`link add ${uplink} type veth peer name ${uplink}p`)
  for (const device of [uplink, `${uplink}p`, 'btestxbr']) ip(`link set ${device} up`)
  ip(`address add 198.51.100.7/32 dev ${uplink} metric ${mark.metric}`)
  ip(`address add 198.51.100.8/32 dev ${uplink} metric ${others.metric}`)
  ip(`address add 198.51.100.9/32 dev ${uplink}`)
  ip(`-6 neighbour add proxy 2001:db8:7::7 dev ${uplink} protocol ${mark.protocol}`)
  ip(`-6 neighbour add proxy 2001:db8:7::8 dev ${uplink} protocol ${others.protocol}`)
  ip(`-6 neighbour add proxy 2001:db8:7::9 dev ${uplink}`)
  ip(`-6 route add 2001:db8:7::7/128 dev btestxbr protocol ${mark.protocol}`)
}

function removeUplink(): void {
  spawnSync('ip', ['link', 'delete', uplink])
}

/** Runs the script's part alone: the host's own record is shared with other agents. */
function restoreKernelSettings(record: string): void {
  const libraries = ['common', 'instance', 'purge'].map((library) => `. scripts/lib/${library}.sh`).join('; ')
  sh('bash', '-euc', `${libraries}; kernel_record=$1; restore_kernel_settings`, 'bash', record)
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
  // What an earlier, killed run left.
  before(() => {
    removeUplink()
    purge()
  })
  after(() => {
    removeUplink()
    purge()
  })

  it('with configuration only', () => {
    writeConfigs()
    expect(purge().code).to.equal(0)
    expect(traces()).to.deep.equal([])
  })

  it('network, pool, loop device, stray processes, files', async () => {
    writeConfigs()
    makeNetwork()
    makeAddresses()
    makePool()
    const stray = startStray()
    await waitFor(() => existsSync(join(state, 'gateway/redis/s')), { what: 'stray redis' })
    for (const directory of directories) mkdirSync(join(directory, 'agent'), { recursive: true })
    writeFileSync(`/run/berth-${name}/agent.pid`, '1 1\n') // of a process that is another's by now
    expect(traces()).to.have.length.greaterThan(14)
    const { code, output } = purge()
    expect(code, output).to.equal(0)
    expect(traces()).to.deep.equal([])
    const left = sh('ip', '-4', 'address', 'show', uplink) + sh('ip', '-6', 'neighbour', 'show', 'proxy')
    for (const other of ['198.51.100.8', '198.51.100.9', '2001:db8:7::8', '2001:db8:7::9'])
      expect(left, 'what another put there stays').to.include(other)
    await waitFor(
      () => !existsSync(`/proc/${stray}`) || readFileSync(`/proc/${stray}/stat`, 'utf8').includes(') Z '),
    )
  })

  it('kernel settings that are still as agents set them, once none needs them', () => {
    const directory = mkdtempSync('/tmp/btest-purge-kernel-')
    const record = join(directory, 'record.json')
    const [path, changed] = [1, 2].map((n) => `net/ipv6/neigh/default/gc_thresh${n}`) as [string, string]
    const [own, ownChanged] = [path, changed].map((at) => readFileSync(`/proc/sys/${at}`, 'utf8').trim())
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const write = (of: string, users: string[]): void => {
      const before = { [path]: Number(own) - 1, [changed]: 7 }
      const set = { [path]: Number(own), [changed]: Number(ownChanged) + 1 }
      writeFileSync(record, `${JSON.stringify({ boot: of, users, before, set }, null, 2)}\n`)
    }
    const has = (at: string): string => readFileSync(`/proc/sys/${at}`, 'utf8').trim()
    try {
      write(boot, ['/gone', directory])
      restoreKernelSettings(record)
      expect([has(path), existsSync(record)], 'another needs it').to.deep.equal([own, true])
      write('another boot', ['/gone'])
      restoreKernelSettings(record)
      expect([has(path), existsSync(record)], 'of an earlier boot').to.deep.equal([own, false])
      write(boot, ['/gone'])
      restoreKernelSettings(record)
      expect([has(path), has(changed)]).to.deep.equal([String(Number(own) - 1), ownChanged])
      expect(existsSync(record)).to.equal(false)
    } finally {
      writeFileSync(`/proc/sys/${path}`, String(own))
      rmSync(directory, { recursive: true, force: true })
    }
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
