import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Machine } from '../../../agent/drivers/machine.js'
import * as attacks from './attacks.js'
import type { LxcLab } from '../host/lxc-lab.js'

/** Measurements of a quiet guest next to the hostile guest. Times are in milliseconds. */
export interface Quiet {
  readonly ssh: Times
  readonly ping: Times
  readonly fsync: Times
  /** Lowest value of the host's available memory during the measurement, in MiB. */
  readonly availableMib: number
}

export interface Times {
  readonly count: number
  /** Number of attempts that got no answer within 5 s. */
  readonly failed: number
  readonly median: number
  readonly p99: number
}

const newNet = 0x40000000

/** Starts a guest that runs all attacks of attacks.ts after {@link attack} was called. */
export async function startHostile(lab: LxcLab): Promise<Machine> {
  const plain = lab.host.machine()
  const limits = { ...plain.limits, memoryBytes: 256 * 2 ** 20, swapBytes: 0 }
  const machine = await lab.prepared({ limits })
  writeFileSync(`${machine.volume}/root/attack`, programOf(machine))
  const unit = '[Service]\nExecStart=/usr/bin/perl /root/attack\nRestart=always\nOOMPolicy=continue\n'
  writeFileSync(`${machine.volume}/etc/systemd/system/attack.service`, unit)
  const wants = `${machine.volume}/etc/systemd/system/multi-user.target.wants`
  mkdirSync(wants, { recursive: true })
  symlinkSync('../attack.service', `${wants}/attack.service`)
  await lab.host.driver.start(machine, new AbortController().signal)
  return machine
}

export function attack({ volume }: Machine): void {
  writeFileSync(`${volume}/root/go`, '')
}

function programOf({ nic }: Machine): string {
  const held = [attacks.aio, attacks.packetRings, attacks.messageQueues, attacks.pendingSignals, attacks.inotify]
  const all = [attacks.groups, attacks.namespaces(newNet), ...held]
  const list = all.map(() => `<<'END'`).join(', ')
  const gateway = nic.gateway.split('.').join(', ')
  return `my $gateway = pack('C4', ${gateway});\nmy @attacks = (${list});\n${all
    .map((code) => `${code}\nEND\n`)
    .join('')}${attacks.everything}`
}

/** Measures a quiet guest for some seconds. */
export async function watchQuiet(lab: LxcLab, machine: Machine, seconds: number): Promise<Quiet> {
  const deadline = performance.now() + seconds * 1000
  const [ssh, ping, fsync, availableMib] = await Promise.all([
    repeat(deadline, () => greet(machine.nic.ipv4)),
    repeat(deadline, () => echo(machine.nic.ipv4)),
    syncFiles(lab, machine, seconds),
    leastAvailable(deadline),
  ])
  return { ssh, ping, fsync, availableMib }
}

async function repeat(deadline: number, attempt: () => Promise<number | undefined>): Promise<Times> {
  const times: (number | undefined)[] = []
  while (performance.now() < deadline) {
    times.push(await attempt())
    await delay(100)
  }
  return summarize(times)
}

/** Resolves with the time until the SSH server of the guest identifies itself; undefined if it does not. */
async function greet(host: string): Promise<number | undefined> {
  const begun = performance.now()
  const socket = createConnection({ host, port: 22 })
  try {
    await once(socket, 'data', { signal: AbortSignal.timeout(5000) })
    return performance.now() - begun
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}

async function echo(host: string): Promise<number | undefined> {
  const child = spawn('ping', ['-c1', '-W5', host])
  const text = await readAll(child)
  const time = /time=([\d.]+) ms/.exec(text)?.[1]
  return time === undefined ? undefined : Number(time)
}

const syncLoop = `
use Time::HiRes 'time'; use IO::Handle; $| = 1;
open my $file, '>', '/root/quiet' or die;
for (my $end = time + $ARGV[0]; time < $end; select undef, undef, undef, 0.02) {
  my $begun = time;
  seek $file, 0, 0; print $file 'x' x 4096; $file->flush; $file->sync;
  printf "%.2f\\n", (time - $begun) * 1000;
}`

async function syncFiles(lab: LxcLab, machine: Machine, seconds: number): Promise<Times> {
  const child = spawn('lxc-attach', lab.attach(machine, 'perl', '-e', syncLoop, `${seconds}`))
  return summarize((await readAll(child)).split('\n').filter(Boolean).map(Number))
}

async function readAll(child: ChildProcess): Promise<string> {
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(child, 'close')
  return text
}

async function leastAvailable(deadline: number): Promise<number> {
  let least = Infinity
  while (performance.now() < deadline) {
    const kib = /^MemAvailable: +(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]
    least = Math.min(least, Number(kib) / 1024)
    await delay(200)
  }
  return Math.round(least)
}

function summarize(tries: readonly (number | undefined)[]): Times {
  const times = tries.filter((time) => time !== undefined).sort((a, b) => a - b)
  const at = (part: number): number => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? NaN
  return { count: tries.length, failed: tries.length - times.length, median: at(0.5), p99: at(0.99) }
}

export function describeQuiet(name: string, { ssh, ping, fsync, availableMib }: Quiet): string {
  const row = ({ median, p99, count, failed }: Times): string =>
    `${median.toFixed(1)} / ${p99.toFixed(1)} (${count - failed} of ${count})`
  return `| ${name} | ${row(ssh)} | ${row(ping)} | ${row(fsync)} | ${availableMib} |`
}

export function killQuickly(machines: readonly Machine[], lab: LxcLab): Promise<unknown> {
  return Promise.all(machines.map((machine) => lab.host.driver.kill(machine)))
}
