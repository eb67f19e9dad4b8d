import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { FleetPair, type GuestRow } from '../support/host/fleet-pair.js'
import type { FleetHost } from '../support/host/fleet-host.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'
import { figure, median, timed, type Figure } from './figures.js'
import { LxdMoves } from './lxd-moves.js'
import { dataMib, fill, logOf, watchDowntime, writeOften, writtenBytes, type MoveDurations } from './moved-guest.js'

const run = promisify(execFile)
/**
 * Moves a running container between two hosts. Compares this with a copy of the same disk by `btrfs send` and
 * `btrfs receive` through ssh, and, if LXD is installed, with moves of an equal container between two LXD servers. The
 * hosts are network namespaces of this machine with agents and pools of their own.
 */
export async function benchMoves(rounds: number): Promise<Figure[]> {
  const pair = new FleetPair('mvb', { bridge: 'btest-mvb', prefix: '198.18.155' }, { poolGb: 8 })
  const ssh = await SshLoop.start()
  let lxd: LxdMoves | undefined
  try {
    await pair.open()
    const guest = await pair.create('moved', { disk_gb: 3 })
    fill(pair.diskOf(pair.first, guest))
    lxd = await LxdMoves.open(join(pair.first.instance.pool, 'images/debian-12'))
    return summarize(await measure(rounds, { pair, guest, ssh, lxd }))
  } finally {
    await lxd?.close()
    await ssh.stop()
    await pair.close()
  }
}

interface Lab {
  readonly pair: FleetPair
  readonly guest: GuestRow
  readonly ssh: SshLoop
  readonly lxd: LxdMoves | undefined
}

/** Returns the durations of all rounds by system. The systems take turns. */
async function measure(rounds: number, { pair, guest, ssh, lxd }: Lab): Promise<Map<string, MoveDurations[]>> {
  const systems = new Map([
    ['Berth', () => moveOnce(pair, guest)],
    ['btrfs send over ssh', () => copyRaw(pair, guest, ssh)],
  ])
  if (lxd) systems.set('LXD, lxc move', () => lxd.move()).set('LXD, refreshed copies', () => lxd.refresh())
  const durations = new Map([...systems.keys()].map((name): [string, MoveDurations[]] => [name, []]))
  for (let round = 0; round < rounds; round++)
    for (const [name, system] of systems) durations.get(name)?.push(await system())
  return durations
}

function summarize(durations: ReadonlyMap<string, readonly MoveDurations[]>): Figure[] {
  const systems = [...durations].map(([name, all]) => ({
    name,
    totalMs: median(all.map(({ totalMs }) => totalMs)),
    downMs: median(all.map(({ downMs }) => downMs)),
  }))
  const row = (name: string, unit: string, value: (one: MoveDurations) => number): Figure =>
    figure(name, unit, Object.fromEntries(systems.map((one) => [one.name, value(one)])))
  return [
    row(`a move of a guest with ${dataMib} MiB that writes 5 MB/s`, 'ms', ({ totalMs }) => totalMs),
    row('rate', 'MiB/s', ({ totalMs }) => dataMib / (totalMs / 1000)),
    row('interruption of the guest (raw tool: only the last increment)', 'ms', ({ downMs }) => downMs),
  ]
}

async function moveOnce(pair: FleetPair, guest: GuestRow): Promise<MoveDurations> {
  const from = await pair.hostOf(guest.name)
  const to = pair.otherThan(from)
  const writer = new AbortController()
  const writing = writeOften(pair.diskOf(from, guest), writer.signal)
  const watched = watchDowntime(lxcPathOf(from), lxcPathOf(to))
  let task: Record<string, unknown> = {}
  const totalMs = await timed(async () => {
    task = await pair.ended(await pair.migrate(guest, { host_id: pair.idOf(to) }))
  })
  writer.abort()
  await writing
  if (task['status'] !== 'done') throw new Error(`the move failed: ${JSON.stringify(task)}`)
  await waitFor(async () => (await pair.rowOf(guest.name)).status === 'running', { what: 'the moved guest running' })
  await waitFor(() => !existsSync(pair.diskOf(from, guest)), { what: 'the removal of the former copy' })
  return { totalMs, downMs: await watched }
}

function lxcPathOf({ instance }: FleetHost): string {
  return join(instance.stateDir, 'lxc')
}

/** Copies the guest's disk with the raw tools, and then the changes of 100 ms as an increment. */
async function copyRaw(pair: FleetPair, guest: GuestRow, ssh: SshLoop): Promise<MoveDurations> {
  const from = await pair.hostOf(guest.name)
  const to = pair.otherThan(from)
  const disk = pair.diskOf(from, guest)
  const [source, target] = [from, to].map((host) => join(host.instance.pool, `raw-${randomUUID()}`)) as [string, string]
  for (const path of [source, target]) mkdirSync(path)
  try {
    await run('btrfs', ['subvolume', 'snapshot', '-r', disk, join(source, 'first')])
    const totalMs = await timed(() => ssh.send([join(source, 'first')], target))
    appendFileSync(logOf(disk), randomBytes(writtenBytes))
    await run('btrfs', ['subvolume', 'snapshot', '-r', disk, join(source, 'second')])
    const downMs = await timed(() => ssh.send(['-p', join(source, 'first'), join(source, 'second')], target))
    return { totalMs: totalMs + downMs, downMs }
  } finally {
    for (const path of [source, target])
      for (const name of ['first', 'second'])
        if (existsSync(join(path, name))) await run('btrfs', ['subvolume', 'delete', join(path, name)])
    for (const path of [source, target]) rmSync(path, { recursive: true })
  }
}

/** An ssh server on loopback, with keys of its own. */
class SshLoop {
  private constructor(
    private readonly directory: string,
    private readonly port: number,
    private readonly server: ChildProcess,
  ) {}

  static async start(): Promise<SshLoop> {
    const directory = mkdtempSync(join(tmpdir(), 'btest-ssh-'))
    for (const name of ['host', 'user'])
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, name)])
    const port = await freePort()
    const keys = [`HostKey=${directory}/host`, `AuthorizedKeysFile=${directory}/user.pub`, 'StrictModes=no']
    const options = [...keys, `ListenAddress=127.0.0.1:${port}`, 'UsePAM=no', 'PermitRootLogin=yes', 'PidFile=none']
    mkdirSync('/run/sshd', { recursive: true })
    const args = ['-D', '-f', '/dev/null', ...options.flatMap((option) => ['-o', option])]
    const loop = new SshLoop(directory, port, spawn('/usr/sbin/sshd', args, { stdio: 'ignore' }))
    await waitFor(
      () =>
        loop.#run('true').then(
          () => true,
          () => false,
        ),
      { what: 'the ssh server' },
    )
    return loop
  }

  /** Runs `btrfs send` with these arguments, and `btrfs receive` for `target` at the other end of the connection. */
  async send(args: readonly string[], target: string): Promise<void> {
    await this.#run(`btrfs receive ${target}`, `btrfs send -q ${args.join(' ')} |`)
  }

  async #run(command: string, before = ''): Promise<void> {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR']
    const flags = options.map((option) => `-o ${option}`).join(' ')
    const ssh = `ssh -i ${this.directory}/user -p ${this.port} ${flags} ${userInfo().username}@127.0.0.1 '${command}'`
    await run('sh', ['-c', `${before} ${ssh}`])
  }

  async stop(): Promise<void> {
    this.server.kill()
    rmSync(this.directory, { recursive: true, force: true })
  }
}
