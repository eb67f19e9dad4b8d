import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { parse } from 'yaml'
import { apiCall } from '../support/gateway/api-call.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { unpackTestImage } from '../support/guests/debian-image.js'
import { PublicSegment } from '../support/network/public-segment.js'
import { scratchDirectory } from '../support/scratch.js'
import { makePool } from '../support/host/systemd-machine.js'
import { waitFor } from '../support/wait.js'
import { sh } from '../support/sh.js'

/*
 * Runs the set-up scripts as an operator does, for a separate instance. Its pool already contains an image. The first
 * build of an image and the tutorial are tested in fresh-machine.test.ts.
 */

const name = 'btestu'
/** A second instance, set up at the same time. The host joins its gateway later. */
const other = 'btestw'
const etc = `/etc/berth-${name}`
const run = `/run/berth-${name}`
function script(path: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(path, ['--instance', name, ...args], { encoding: 'utf8' })
  expect(status, stdout + stderr).to.equal(0)
  return stdout + stderr
}

function configOf(program: 'agent' | 'gateway'): Record<string, unknown> {
  return parse(readFileSync(`${etc}/${program}.yaml`, 'utf8')) as Record<string, unknown>
}

const apiUrl = (): string => `http://${String(configOf('gateway')['listen'])}`
const adminKey = (): string => readFileSync(`${etc}/admin.key`, 'utf8').trim()
const pidOf = (program: 'agent' | 'gateway'): number =>
  Number(readFileSync(`${run}/${program}.pid`, 'utf8').split(' ')[0])

async function api<T>(path: string, init: { method?: string; body?: unknown } = {}): Promise<T> {
  const { body } = await apiCall(apiUrl(), [init.method ?? 'GET', `/api/v1${path}`], {
    // A kept-alive connection might belong to a gateway process that was replaced in the meantime.
    headers: { 'X-API-Key': adminKey(), 'Content-Type': 'application/json', Connection: 'close' },
    ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
  })
  const answer = body as { success: boolean; data: T; message?: string }
  expect(answer.success, JSON.stringify(answer)).to.equal(true)
  return answer.data
}

async function followTask(id: string): Promise<void> {
  const task = await waitFor(
    async () => {
      const found = await api<{ status: string; error: string }>(`/tasks/${id}`)
      return ['done', 'failed', 'canceled'].includes(found.status) ? found : undefined
    },
    { intervalMs: 100, what: `task ${id}` },
  )
  expect(task.status, task.error).to.equal('done')
}

async function createGuest(guest: string): Promise<{ port: number; password: string }> {
  const body = {
    name: guest,
    virtualization: 'lxc',
    template_id: 'debian-12',
    vcpu: 1,
    ram_mb: 256,
    disk_gb: 2,
    assign_nat: true,
    port_mapping_count: 1,
  }
  const created = await api<{ task_id: string; ssh_port: number; ssh_password: string }>('/containers', {
    method: 'POST',
    body,
  })
  await followTask(created.task_id)
  return { port: created.ssh_port, password: created.ssh_password }
}

const statusOf = async (guest: string): Promise<string> =>
  (await api<{ status: string }>(`/containers/${guest}`)).status

async function installDebian(pool: string): Promise<void> {
  const path = `${pool}/images/debian-12`
  sh('btrfs', '-q', 'subvolume', 'create', path)
  await unpackTestImage(path)
  sh('btrfs', 'property', 'set', path, 'ro', 'true')
}

/** Creates an instance's pool and installs an image in the pool, before the instance is set up for the first time. */
async function seedPool(
  instance: string,
  installImage: (pool: string) => Promise<void> = (pool) => installBusyboxImage(pool, 'debian-12'),
): Promise<void> {
  const { path, wipe } = scratchDirectory(`btest-seed-${instance}`)
  await makePool(`/var/lib/berth-${instance}/pool.img`, `${path}/pool`, installImage).finally(wipe)
}

/** Lets the host of this instance join the gateway of the other instance. */
async function joinOther(): Promise<void> {
  const url = `http://${(parse(readFileSync(`/etc/berth-${other}/gateway.yaml`, 'utf8')) as { listen: string }).listen}`
  const { body } = await apiCall(url, ['POST', '/api/v1/hosts'], {
    headers: {
      'X-API-Key': readFileSync(`/etc/berth-${other}/admin.key`, 'utf8').trim(),
      'Content-Type': 'application/json',
    },
    body: JSON.stringify({ name: 'joined', address: configOf('agent')['listen'] }),
  })
  const { data } = body as { data: { join_token: string } }
  const join = `/opt/berth-${name}/dist/agent/main.js join - --config ${etc}/agent.yaml`
  sh('bash', '-c', `node ${join} <<<"$1"`, 'bash', data.join_token)
}

/** First process of each guest of the instance: its control group, pid and start time. */
function guestInits(): string[] {
  const prefix = `lxc.payload.${String((configOf('agent')['network'] as Record<string, unknown>)['interface_prefix'])}-`
  const base = existsSync('/sys/fs/cgroup/pids') ? '/sys/fs/cgroup/pids' : '/sys/fs/cgroup'
  return readdirSync(base)
    .filter((entry) => entry.startsWith(prefix))
    .flatMap((entry) => {
      const pids = sh('find', `${base}/${entry}`, '-name', 'cgroup.procs', '-exec', 'cat', '{}', '+').split('\n')
      const first = Math.min(...pids.filter(Boolean).map(Number))
      return `${entry} ${first} ${sh('cut', '-d', ' ', '-f', '22', `/proc/${first}/stat`).trim()}`
    })
}

/** Everything on the host that has the name of the instance, or one of `names` from its configuration. */
function traces(names: { bridge: string; table: string; prefix: string }): string[] {
  const having = (text: string, pattern: RegExp): string[] => text.split('\n').filter((line) => pattern.test(line))
  const groups = sh('find', '/sys/fs/cgroup', '-maxdepth', '2', '-name', `lxc.*.${names.prefix}*`)
  return [
    ...['/etc', '/var/lib', run.slice(0, 4), '/var/log', '/opt', '/run/lock', '/etc/systemd/system'].flatMap((base) =>
      existsSync(base) ? readdirSync(base).filter((entry) => entry.includes(name)) : [],
    ),
    ...having(sh('ip', '-o', 'link'), new RegExp(`: (${names.bridge}|${names.prefix}\\d+)[:@]`)),
    ...having(sh('nft', 'list', 'tables'), new RegExp(` ${names.table}$`)),
    ...having(sh('losetup', '-l'), new RegExp(name)),
    ...having(readFileSync('/proc/self/mounts', 'utf8'), new RegExp(name)),
    ...having(sh('ps', '-eo', 'pid,args'), new RegExp(`(berth-${name}|\\[lxc monitor\\].*${name})`)),
    ...groups.split('\n').filter(Boolean),
  ]
}

describe('scripts/up and scripts/down', function () {
  let names = { bridge: '', table: '', prefix: '' }
  const purge = (): string => script('scripts/down', '--purge')

  // Removes what a killed run left. If nothing is left, as usual, the purge fails, and its error is ignored.
  function clear(): void {
    for (const each of [name, other]) spawnSync('scripts/down', ['--instance', each, '--purge'])
  }
  before(clear)
  after(clear)

  it('set up two instances at the same time, each with a number, an online host and an image', async () => {
    await seedPool(name, installDebian)
    await seedPool(other)
    const up = (...args: string[]) => promisify(execFile)('scripts/up', ['--instance', ...args])
    const [{ stdout: output }] = await Promise.all([up(name), up(other, '--no-wait')])
    const numbers = [name, other].map((each) => readFileSync(`/etc/berth-${each}/number`, 'utf8'))
    expect(numbers[0]).not.to.equal(numbers[1])
    const network = configOf('agent')['network'] as Record<string, string>
    names = {
      bridge: network['bridge'] ?? '',
      table: network['table'] ?? '',
      prefix: network['interface_prefix'] ?? '',
    }
    expect(output).to.include(apiUrl()).and.include(`${etc}/admin.key`).and.include(adminKey())
    expect(output.match(/^ {2}curl .*$/gm)).to.have.length(3)
    expect((await fetch(`${apiUrl()}/readyz`)).status).to.equal(200)
    expect(await api<unknown[]>('/tasks')).to.deep.equal([])
  })

  it('let only root read the admin key, and run the gateway with one capability (ports below 1024)', () => {
    expect((statSync(`${etc}/admin.key`).mode & 0o777).toString(8)).to.equal('600')
    const status = readFileSync(`/proc/${pidOf('gateway')}/status`, 'utf8')
    expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).to.equal(sh('id', '-u', 'berth').trim())
    // CAP_NET_BIND_SERVICE is bit 10.
    for (const set of ['CapBnd', 'CapEff']) expect(status).to.match(new RegExp(`^${set}:\\s+0+400$`, 'm'))
  })

  /** Output of the second run of scripts/up. */
  let output = ''

  it('change nothing if scripts/up runs again, and do not print the admin key again', () => {
    const before = [pidOf('agent'), pidOf('gateway')]
    output = script('scripts/up')
    expect([pidOf('agent'), pidOf('gateway')]).to.deep.equal(before)
    expect(output).not.to.include(adminKey())
  })

  it('set up port mappings through which a client of another network can log in with its real address', async () => {
    const [host, outside] = ['198.18.6.1', '198.18.6.2']
    const client = new PublicSegment('btestssh', { host, outside })
    client.make()
    try {
      const { port, password } = await createGuest('remote')
      const ssh = `-p ${port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR`
      const login = ['sshpass', '-p', password, 'ssh', ...ssh.split(' '), '-o', 'ConnectionAttempts=20', `root@${host}`]
      const asked = sh(
        'ip',
        'netns',
        'exec',
        client.name,
        ...login,
        'systemctl is-system-running --wait; echo $SSH_CLIENT',
      )
      expect(asked).to.match(new RegExp(`^running\n${outside} `))
    } finally {
      client.remove()
    }
    await followTask((await api<{ task_id: string }>('/containers/remote/delete', { method: 'DELETE' })).task_id)
  })

  it('print three example commands, which all succeed', async () => {
    const lines = output.match(/^ {2}curl .*$/gm) ?? []
    expect(lines).to.have.length(3)
    for (const line of lines) {
      const answer = JSON.parse(sh('bash', '-c', line.replace('curl', 'curl -sS'))) as { success: boolean }
      expect(answer.success, JSON.stringify(answer)).to.equal(true)
    }
    await waitFor(async () => (await statusOf('first')) === 'running')
    const { task_id } = await api<{ task_id: string }>('/containers/first/delete', { method: 'DELETE' })
    await followTask(task_id)
  })

  it('restart only the daemon whose configuration has changed, and restart no guest', async () => {
    await createGuest('survivor')
    const inits = guestInits()
    const before = { agent: pidOf('agent'), gateway: pidOf('gateway') }
    const changed = readFileSync(`${etc}/agent.yaml`, 'utf8').replace('log_level: info', 'log_level: debug')
    writeFileSync(`${etc}/agent.yaml`, changed)
    expect(script('scripts/up')).to.include('Restarting the agent')
    expect(pidOf('gateway')).to.equal(before.gateway)
    expect(pidOf('agent')).not.to.equal(before.agent)
    expect(guestInits()).to.deep.equal(inits)
    await api('/routing') // fails unless the agent answers
    expect(await statusOf('survivor')).to.equal('running')
  })

  let inits: string[] = []

  it('keep guests running while Berth is stopped', () => {
    inits = guestInits()
    expect(inits).to.have.length(1)
    script('scripts/down')
    expect(existsSync(`${run}/agent.pid`)).to.equal(false)
    expect(sh('ps', '-eo', 'args')).not.to.match(new RegExp(`(node|redis-server).*berth-${name}`))
    expect(guestInits()).to.deep.equal(inits)
  })

  it('report the program that already uses a port that Berth needs', () => {
    const listen = String(configOf('gateway')['listen'])
    const [host = '', port = ''] = listen.split(':')
    const code = `require('net').createServer().listen(${port}, '${host}', () => {
      const { spawnSync } = require('child_process')
      const { status, stdout, stderr } = spawnSync('scripts/up', ['--instance', '${name}'], { encoding: 'utf8' })
      console.log(status, stdout + stderr)
      process.exit()
    })`
    const output = sh('node', '-e', code)
    expect(output).to.match(/^1 /).and.include(`port ${port} is in use by node`)
  })

  it('give Berth control again over guests that kept running while Berth was stopped', async () => {
    script('scripts/up')
    expect(guestInits()).to.deep.equal(inits)
    expect(await statusOf('survivor')).to.equal('running')
  })

  it('start the daemons again if they were killed', async () => {
    const inits = guestInits()
    for (const program of ['agent', 'gateway'] as const) process.kill(pidOf(program), 'SIGKILL')
    script('scripts/up')
    expect(guestInits()).to.deep.equal(inits)
    await api('/routing')
    expect(await statusOf('survivor')).to.equal('running')
  })

  it('create a new admin key if its file is lost', async () => {
    const lost = adminKey()
    rmSync(`${etc}/admin.key`)
    expect(script('scripts/up')).to.include(adminKey())
    expect(adminKey()).not.to.equal(lost)
    expect(await statusOf('survivor')).to.equal('running')
  })

  it('keep a host that has joined the gateway of another instance', async () => {
    await joinOther()
    const identity = readFileSync(`/var/lib/berth-${name}/agent/identity/identity.pem`, 'utf8')
    expect(script('scripts/up', '--no-wait')).to.include('another gateway')
    expect(readFileSync(`/var/lib/berth-${name}/agent/identity/identity.pem`, 'utf8')).to.equal(identity)
    expect(await api<unknown[]>('/hosts')).to.have.length(1)
    sh('scripts/down', '--instance', other, '--purge')
  })

  it('remove everything in a purge while guests run, even if the installed program is missing', () => {
    rmSync(`/opt/berth-${name}`, { recursive: true })
    expect(traces(names)).to.have.length.greaterThan(5)
    expect(purge(), 'no warnings').to.not.include('"level"')
    expect(traces(names)).to.deep.equal([])
  })

  it('remove everything if a purge runs while the first image is built, and scripts/up reports the purge', async () => {
    const up = promisify(execFile)('scripts/up', ['--instance', name])
    const error = up.then(
      () => '',
      ({ stderr }: { stderr: string }) => stderr,
    )
    let output = ''
    up.child.stdout?.on('data', (chunk: string) => (output += chunk))
    await waitFor(() => output.includes('debian-12 image:'), { what: () => output })
    purge()
    expect(await error).to.include('Berth was stopped meanwhile')
    expect(traces(names)).to.deep.equal([])
  })
})
