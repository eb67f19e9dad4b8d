import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { FleetPair, type GuestRow } from '../support/host/fleet-pair.js'
import type { FleetHost } from '../support/host/fleet-host.js'
import { readInits } from '../support/host/inventory.js'
import { freePort } from '../support/ports.js'
import { waitFor } from '../support/wait.js'
import { figure, median, timed, type Figure } from './figures.js'

const run = promisify(execFile)
const mib = 2 ** 20
/** Size of the guest's data in MiB. The data is random, so that nothing can compress it. */
const dataMib = 512
/** The guest writes this many bytes every 100 ms, which is 5 MB/s. */
const writtenBytes = 500_000

interface MoveDurations {
  readonly totalMs: number
  readonly downMs: number
}

/**
 * Moves a running container between two hosts. Compares this with a copy of the same disk by `btrfs send` and
 * `btrfs receive` through ssh. The hosts are network namespaces of this machine with agents and pools of their own.
 */
export async function benchMoves(rounds: number): Promise<Figure[]> {
  const pair = new FleetPair('mvb', { bridge: 'btest-mvb', prefix: '198.18.155' }, { poolGb: 8 })
  const ssh = await SshLoop.start()
  try {
    await pair.open()
    const guest = await pair.create('moved', { disk_gb: 3 })
    fill(join(pair.diskOf(pair.first, guest), 'root/data'), dataMib)
    const moves: MoveDurations[] = []
    const raws: MoveDurations[] = []
    for (let round = 0; round < rounds; round++) {
      raws.push(await copyRaw(pair, guest, ssh))
      moves.push(await moveOnce(pair, guest))
    }
    return summarize(moves, raws)
  } finally {
    await ssh.stop()
    await pair.close()
  }
}

function summarize(moves: readonly MoveDurations[], raws: readonly MoveDurations[]): Figure[] {
  const middle = (all: readonly MoveDurations[], key: keyof MoveDurations): number => median(all.map((one) => one[key]))
  const rate = (all: readonly MoveDurations[]): number => dataMib / (middle(all, 'totalMs') / 1000)
  const raw = 'btrfs send over ssh'
  return [
    figure(`a move of a guest with ${dataMib} MiB that writes 5 MB/s`, 'ms', {
      Berth: middle(moves, 'totalMs'),
      [raw]: middle(raws, 'totalMs'),
    }),
    figure('rate', 'MiB/s', { Berth: rate(moves), [raw]: rate(raws) }),
    figure('interruption of the guest (raw tool: only the last increment)', 'ms', {
      Berth: middle(moves, 'downMs'),
      [raw]: middle(raws, 'downMs'),
    }),
  ]
}

/** Writes random data to a file. */
function fill(path: string, sizeMib: number): void {
  const file = openSync(path, 'w')
  for (let at = 0; at < sizeMib; at += 16) writeSync(file, randomBytes(16 * mib))
}

async function moveOnce(pair: FleetPair, guest: GuestRow): Promise<MoveDurations> {
  const from = await pair.hostOf(guest.name)
  const to = pair.otherThan(from)
  const writer = new AbortController()
  const writing = writeOften(pair.diskOf(from, guest), writer.signal)
  const watched = watchDowntime(from, to)
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

/** Appends to a file of the guest, like a program in the guest, until its disk is gone. */
async function writeOften(disk: string, signal: AbortSignal): Promise<void> {
  const path = join(disk, 'root/log')
  writeFileSync(path, '')
  for (; !signal.aborted && existsSync(path); await delay(100)) appendFileSync(path, randomBytes(writtenBytes))
}

/** Measures the ms from the end of the guest's first process at the source until its first process at the target. */
async function watchDowntime(from: FleetHost, to: FleetHost): Promise<number> {
  const [source, target] = [readInits(from.instance).size, readInits(to.instance).size]
  while (readInits(from.instance).size >= source) await delay(10)
  const goneMs = performance.now()
  while (readInits(to.instance).size <= target) await delay(10)
  return performance.now() - goneMs
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
    appendFileSync(join(disk, 'root/log'), randomBytes(writtenBytes))
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
