import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect } from 'chai'
import { AgentConfigSchema } from '../../agent/config.js'
import { markOf } from '../../agent/network/addresses/mark.js'
import { SwapFiles } from '../../agent/swap/swap-files.js'
import { validateConfig } from '../../shared/config.js'
import { startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

const name = 'btestx'
const directories = ['/etc', '/var/lib', '/run', '/var/log', '/opt'].map((base) => `${base}/berth-${name}`)
const etc = `/etc/berth-${name}`
const state = `/var/lib/berth-${name}`
const pool = `${state}/pool`
const loopFile = `${state}/pool.img`
/** An interface of the host that a purge must not delete. */
const uplink = 'btestxup'
const mark = markOf('btestx')
/** Marks of another agent. The protocol number must not be that of a real agent, which would remove the entries. */
const others = { ...markOf('btesty'), protocol: 190 }

function purge(): { code: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('scripts/down', ['--instance', name, '--purge'], {
    encoding: 'utf8',
  })
  return { code: status, output: stdout + stderr }
}

/** Everything on the host that has the name of the instance, or a name from its configuration. */
function traces(): string[] {
  const links = sh('ip', '-o', 'link').split('\n')
  const list = (command: string): string[] =>
    sh('ip', ...command.split(' '))
      .split('\n')
      .filter(Boolean)
  return [
    ...directories.filter((directory) => existsSync(directory)),
    ...[unit, join(units, 'swap.target.wants', basename(unit))].filter((file) => existsSync(file)),
    ...readFileSync('/proc/swaps', 'utf8')
      .split('\n')
      .filter((line) => line.startsWith(`${state}/`)),
    ...links.filter((line) => /: (btestxbr|xbt\d+u?)[:@]/.test(line)),
    ...list('-o -4 address show').filter((line) => line.includes(` metric ${mark.metric} `)),
    ...list('-N -6 neighbour show proxy').filter((line) => / proto (\d+)/.exec(line)?.[1] === `${mark.protocol}`),
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
  writeFileSync(join(etc, 'gateway.yaml'), `state_dir: ${state}/gateway\nrun_dir: /run/berth-${name}/gateway\n`)
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

/** Adds addresses, proxy entries and routes to the host: some as the agent does, others as other programs do. */
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

function keptAddresses(): string {
  return sh('ip', '-4', 'address', 'show', uplink) + sh('ip', '-6', 'neighbour', 'show', 'proxy', 'dev', uplink)
}

function removeUplink(): void {
  spawnSync('ip', ['link', 'delete', uplink])
}

/** Restores kernel settings as scripts/down does, but from a separate record, because all agents share the real one. */
function restoreKernelSettings(record: string, then = '', inside: string[] = []): string {
  const libraries = ['common', 'instance', 'purge'].map((library) => `. scripts/lib/${library}.sh`).join('; ')
  const lines = `${libraries}; kernel_record=$1; restore_kernel_settings; ${then}`
  const [program = '', ...args] = [...inside, 'bash', '-euc', lines, 'bash', record]
  return sh(program, ...args)
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

const units = '/etc/systemd/system'
const unit = join(units, `var-lib-berth\\x2d${name}-agent-swap-swapfile.swap`)
const swapFile = `${state}/agent/swap/swapfile`

/** Creates swap files as the agent does: one in use with its unit, a second one, and an incomplete one. */
async function makeSwap(): Promise<void> {
  const given = { state_dir: `${state}/agent`, swap: { unit_dir: units } }
  const swap = new SwapFiles(validateConfig(AgentConfigSchema, given, 'test'))
  for (const slot of [0, 1] as const) await swap.make(slot, 64 * 1024 ** 2, new AbortController().signal)
  await swap.use(0)
  await swap.keep(0, true)
  writeFileSync(`${swapFile}.2.new`, '')
}

/** Starts a Redis server in a directory of the instance. The purge must end the server. @returns its pid */
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
  // Removes what an earlier, killed run of this test has left.
  before(() => {
    removeUplink()
    purge()
  })
  after(() => {
    removeUplink()
    purge()
  })

  it('succeeds if only the configuration exists', () => {
    writeConfigs()
    expect(purge().code).to.equal(0)
    expect(traces()).to.deep.equal([])
  })

  it('removes the network, the pool, the loop device, swap, processes and files', async () => {
    writeConfigs()
    makeNetwork()
    makeAddresses()
    makePool()
    await makeSwap()
    expect(existsSync(unit), 'the unit is where the script looks').to.equal(true)
    const stray = startStray()
    await waitFor(() => existsSync(join(state, 'gateway/redis/s')), { what: 'stray redis' })
    for (const directory of directories) mkdirSync(join(directory, 'agent'), { recursive: true })
    writeFileSync(`/run/berth-${name}/agent.pid`, '1 1\n') // this pid belongs to a different process
    expect(traces()).to.have.length.greaterThan(14)
    const { code, output } = purge()
    expect(code, output).to.equal(0)
    expect(traces()).to.deep.equal([])
    const foreign = ['198.51.100.8', '198.51.100.9', '2001:db8:7::8', '2001:db8:7::9']
    // The kernel may omit entries of a list that changes while it is read. Other tests change this list.
    await waitFor(() => foreign.every((other) => keptAddresses().includes(other)), {
      what: () => `${foreign.join()} to be kept: ${keptAddresses()}`,
    })
    await waitFor(() => !existsSync(`/proc/${stray}`) || readFileSync(`/proc/${stray}/stat`, 'utf8').includes(') Z '))
  })

  describe('on a Redis server of somebody else', () => {
    const prefix = `berth-${name}:`
    let server: TestRedis
    before(async () => (server = await startTestRedis()))
    after(() => server.stop())

    function configure(url: string, redis = `{ prefix: '${prefix}' }`): void {
      writeConfigs()
      const file = join(etc, 'gateway.yaml')
      writeFileSync(file, `${readFileSync(file, 'utf8')}redis: ${redis}\n`)
      writeFileSync(join(etc, 'gateway.env'), `BERTH_REDIS_URL=${url}\n`)
    }

    it('deletes only the keys of the instance', async () => {
      const { client } = await server.openStore()
      const [own, others] = [`${prefix}hosts`, `berth-${name}y:hosts`]
      await client.mSet([own, '1', others, '1'])
      configure(server.url)
      const { code, output } = purge()
      expect([code, await client.exists([own]), await client.exists([others])]).to.deep.equal([0, 0, 1])
      expect(output).to.include(`1 keys ${prefix}* removed`).and.include('nothing is left')
    })

    it('names the keys that remain on an unreachable server, but not the password of the server', () => {
      configure('redis://user:secret@127.0.0.1:1/0')
      const { code, output } = purge()
      expect([code, traces()], output).to.deep.equal([0, []])
      expect(output).to.include(`the keys ${prefix}* are left in the Redis server at 127.0.0.1:1/0`)
      expect(output).to.not.include('nothing is left').and.not.include('secret')
    })

    it('keeps the keys with the prefix of the first instance', async () => {
      const { client } = await server.openStore()
      await client.set('berth:hosts', '1')
      configure(server.url, '{}')
      expect(purge().output).to.include('the keys berth:* are left')
      expect(await client.exists(['berth:hosts'])).to.equal(1)
    })
  })

  describe('if kernel settings were recorded', () => {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const netns = statSync('/proc/self/ns/net').ino
    /** A setting of the kernel that no agent changes, and two settings of the network namespace. */
    const [burst, queue, other] = [
      'kernel/printk_ratelimit_burst',
      'net/ipv4/neigh/lo/proxy_qlen',
      'net/ipv4/neigh/lo/mcast_solicit',
    ]
    const has = (at: string): number => Number(readFileSync(`/proc/sys/${at}`, 'utf8'))
    const directory = mkdtempSync('/tmp/btest-purge-kernel-')
    const record = join(directory, 'record.json')
    const own = new Map([burst, queue, other].map((path) => [path, has(path)]))
    /** Values after the purge. It lowers the first two by one, but not the third, which another program has changed. */
    const lowered = [burst, queue, other].map((path) => has(path) - (path === other ? 0 : 1))

    function write(of: string, users: Record<string, number>, place = netns): void {
      const values = (by: number): [string, number][] =>
        [burst, queue, other].map((path) => [path.startsWith('net') ? `${place}:${path}` : path, has(path) + by])
      const [before, set] = [Object.fromEntries(values(-1)), Object.fromEntries(values(0))]
      set[`${place}:${other}`] = has(other) + 1
      writeFileSync(record, `${JSON.stringify({ boot: of, users, before, set }, null, 2)}\n`)
    }
    const now = (): number[] => [burst, queue, other].map(has)
    const unchanged = [...own.values()]

    afterEach(() => {
      for (const [path, value] of own) writeFileSync(`/proc/sys/${path}`, String(value))
    })
    after(() => rmSync(directory, { recursive: true, force: true }))

    it('restores settings that no agent needs any more and that no other program has changed', () => {
      write(boot, { '/gone': netns })
      restoreKernelSettings(record)
      expect([now(), existsSync(record)]).to.deep.equal([lowered, false])
    })

    it('restores no settings while another agent exists', () => {
      write(boot, { '/gone': netns, [directory]: netns })
      restoreKernelSettings(record)
      expect([now(), existsSync(record)]).to.deep.equal([unchanged, true])
    })

    it('restores no settings after a boot, which has already reset them', () => {
      write('another boot', { '/gone': netns })
      restoreKernelSettings(record)
      expect([now(), existsSync(record)]).to.deep.equal([unchanged, false])
    })

    it('restores network settings only with the last agent of their network namespace, and only once', () => {
      write(boot, { '/gone': netns, [directory]: 1 })
      restoreKernelSettings(record)
      expect(now()).to.deep.equal([unchanged[0], ...lowered.slice(1)])
      writeFileSync(`/proc/sys/${queue}`, String(own.get(queue)))
      restoreKernelSettings(record)
      expect(now(), 'set by somebody else later').to.deep.equal(unchanged)
    })

    it('does not apply records of another network namespace to its own network namespace', () => {
      write(boot, { '/gone': 1 }, 1)
      restoreKernelSettings(record)
      expect([now(), existsSync(record)]).to.deep.equal([[lowered[0], ...unchanged.slice(1)], false])
    })

    it('restores no network settings if it runs in another network namespace than the agent did', () => {
      write(boot, { '/gone': netns })
      const there = restoreKernelSettings(record, `cat /proc/sys/${queue}`, ['unshare', '-n'])
      expect(now()).to.deep.equal([lowered[0], ...unchanged.slice(1)])
      expect(Number(there), 'its own there').to.equal(own.get(queue))
    })
  })

  it('removes only Berth’s files from a pool that somebody else has mounted', () => {
    const base = '/tmp/btest-purge'
    sh('rm', '-rf', base)
    mkdirSync(join(base, 'pool'), { recursive: true })
    sh('truncate', '-s', '300M', join(base, 'own.img'))
    sh('mkfs.btrfs', '-q', join(base, 'own.img'))
    sh('mount', '-o', 'loop', join(base, 'own.img'), join(base, 'pool'))
    try {
      mkdirSync(join(base, 'pool/guests'))
      mkdirSync(join(base, 'pool/snapshots/g1'), { recursive: true })
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/guests/g1'))
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/guests/g1/nested'))
      sh('btrfs', '-q', 'subvolume', 'snapshot', '-r', join(base, 'pool/guests/g1'), join(base, 'pool/snapshots/g1/s1'))
      sh('btrfs', '-q', 'subvolume', 'create', join(base, 'pool/mine'))
      writeConfigs()
      const config = readFileSync(join(etc, 'agent.yaml'), 'utf8').replace(pool, join(base, 'pool'))
      writeFileSync(join(etc, 'agent.yaml'), config)
      const { code, output } = purge()
      expect(code, output).to.equal(0)
      expect(existsSync(join(base, 'pool/mine'))).to.equal(true)
      for (const folder of ['guests', 'snapshots'])
        expect(existsSync(join(base, 'pool', folder)), folder).to.equal(false)
    } finally {
      sh('umount', join(base, 'pool'))
      sh('rm', '-rf', base)
    }
  })
})
