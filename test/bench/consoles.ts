import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import type { ConsoleClient } from '../support/gateway/console-client.js'
import { waitFor } from '../support/wait.js'
import { ConsoleBench } from './console-lab.js'
import { figure, median, type Figure } from './figures.js'
import { overConsole, overSocket, RfbClient } from './rfb-client.js'

/** A connection to a shell of a guest. */
interface Line {
  type(text: string): void
  onText: (bytes: Buffer) => void
  close(): void
}

export interface ConsoleBenchOptions {
  /** Number of measured keystrokes for each system. */
  readonly keys: number
  readonly megabytes: number
  readonly frames: number
}

/** Compares shells through the gateway with `ssh`, and VNC through the gateway with VNC at QEMU's socket. */
export async function benchConsoles(options: ConsoleBenchOptions): Promise<Figure[]> {
  const bench = new ConsoleBench()
  try {
    await bench.start()
    const [host] = bench.hosts
    const on = { host_id: bench.hostIds.get(host!.name) }
    const { ssh_port: port } = await bench.create('one', { ...on, assign_nat: true, port_mapping_count: 1 })
    const open = {
      Berth: async () => prompted(overWebSocket(await bench.open('ssh', 'one'))),
      ssh: async () => prompted(overSsh(bench.keyFile, host!.address.split(':')[0] ?? '', port)),
    }
    const figures = [
      ...(await benchEcho(open, options.keys)),
      await benchOutput(open, options.megabytes),
      ...(await benchMany(bench)),
    ]
    return [...figures, ...(await benchScreen(bench, options.frames))]
  } finally {
    await bench.close()
  }
}

type Opener = Readonly<Record<'Berth' | 'ssh', () => Promise<Line>>>

function overWebSocket(client: ConsoleClient): Line {
  const line: Line = {
    type: (text) => client.type(text),
    onText: () => undefined,
    close: () => client.socket.close(1000),
  }
  client.onBytes = (bytes) => line.onText(bytes)
  return line
}

function overSsh(keyFile: string, address: string, port: number): Line {
  const options = [
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'LogLevel=ERROR',
    'ConnectionAttempts=20',
  ]
  const args = ['-tt', '-i', keyFile, '-p', `${port}`, ...options.flatMap((one) => ['-o', one])]
  const ssh = spawn('ssh', [...args, `root@${address}`], { stdio: ['pipe', 'pipe', 'inherit'] })
  const line: Line = {
    type: (text) => void ssh.stdin.write(text),
    onText: () => undefined,
    close: () => void ssh.kill(),
  }
  ssh.stdout.on('data', (bytes: Buffer) => line.onText(bytes))
  return line
}

/** Waits for the prompt, because the shell drops input that arrives earlier. */
async function prompted(line: Line): Promise<Line> {
  await until(line, '# ', () => line.type('\r'))
  return line
}

/** Runs an action and waits until the shell shows a text. */
async function until(line: Line, text: string, act: () => void): Promise<void> {
  let shown = ''
  line.onText = (bytes) => (shown = (shown + bytes.toString()).slice(-4000))
  act()
  await waitFor(() => shown.includes(text), {
    intervalMs: 2,
    what: () => `${text} in ${shown}`,
  })
}

/** Number of warm-up rounds, of ten keystrokes each, because Node.js optimizes programs while they run. */
const warmUpRounds = 600

/** Measures the echo of a keystroke. In turns, each system types ten keys into `cat`, whose terminal echoes them. */
async function benchEcho(open: Opener, keys: number): Promise<Figure[]> {
  const systems = ['Berth', 'ssh'] as const
  const lines = new Map(await Promise.all(systems.map(async (name) => [name, await open[name]()] as const)))
  const times = { Berth: [] as number[], ssh: [] as number[] }
  for (const line of lines.values())
    await until(line, 'ready', () => line.type('echo rea""dy; busybox cat >/dev/null\r'))
  for (let round = -warmUpRounds; round < keys / 10; round++)
    for (const [name, line] of lines) {
      for (let key = 0; key < 10; key++) {
        const ms = await echoMs(line)
        if (round >= 0) times[name].push(ms)
      }
      await until(line, '\n', () => line.type('\r'))
    }
  for (const line of lines.values()) line.close()
  const row = (name: string, share: number): Figure =>
    figure(name, 'ms', { Berth: quantile(times.Berth, share), ssh: quantile(times.ssh, share) })
  return [row('echo of a key, median', 0.5), row('the same, 99 of 100', 0.99)]
}

function echoMs(line: Line): Promise<number> {
  const started = performance.now()
  return new Promise((resolve) => {
    line.onText = () => resolve(performance.now() - started)
    line.type('x')
  })
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}

/** Measures the time for a large output. A digest proves that the output is complete. */
async function benchOutput(open: Opener, megabytes: number): Promise<Figure> {
  const seconds = { Berth: 0, ssh: 0 }
  for (const name of ['Berth', 'ssh'] as const) {
    const line = await open[name]()
    seconds[name] = await outputSeconds(line, megabytes * 2 ** 20)
    line.close()
  }
  return figure(`${megabytes} MB of output, complete`, 's', seconds)
}

async function outputSeconds(line: Line, bytes: number): Promise<number> {
  const text = `${'0123456789abcdef'.repeat(4)}\r\n`
  const lines = Math.ceil(bytes / text.length)
  const hash = createHash('sha256')
  let left = lines * text.length
  let head: Buffer | undefined = Buffer.alloc(0)
  const started = performance.now()
  line.onText = (chunk) => {
    let part = chunk
    if (head) {
      head = Buffer.concat([head, chunk])
      const from = head.indexOf('BEGIN\r\n')
      if (from < 0) return
      part = head.subarray(from + 7)
      head = undefined
    }
    if (left > 0) hash.update(part.subarray(0, left))
    left -= Math.min(left, part.length)
  }
  line.type(`echo BEG""IN; busybox yes ${text.trim()} | busybox head -n ${lines}\r`)
  await waitFor(() => left === 0, {
    timeoutMs: 300_000,
    intervalMs: 5,
    what: () => `all, ${left} left after ${head?.toString().slice(-300) ?? 'its beginning'}`,
  })
  const seconds = (performance.now() - started) / 1000
  if (hash.digest('hex') !== createHash('sha256').update(text.repeat(lines)).digest('hex'))
    throw new Error('the output differs from what the guest wrote')
  return seconds
}

const many = { guestsPerHost: 10, perGuest: 5, lines: 5000 } as const

/** Measures a hundred consoles at once. Each must show all lines, which are numbered. */
async function benchMany(bench: ConsoleBench): Promise<Figure[]> {
  const names: string[] = []
  for (const host of bench.hosts)
    for (let n = 0; n < many.guestsPerHost; n++) {
      const name = `${host.name}-${n}`
      await bench.create(name, { host_id: bench.hostIds.get(host.name), vcpu: 0.1, ram_mb: 64 })
      names.push(name)
    }
  const clients: ConsoleClient[] = []
  clients.push(await bench.open('ssh', 'one')) // starts the processes that hold consoles
  clients.push(await bench.open('ssh', names.at(-1)!))
  const before = bench.memoryKib()
  for (const name of names)
    for (let n = clients.length === 2 && name === names.at(-1) ? 1 : 0; n < many.perGuest; n++)
      if (clients.length < 100) clients.push(await bench.open('ssh', name))
  const idle = bench.memoryKib()
  const started = performance.now()
  await Promise.all(clients.map(showNumbers))
  const seconds = (performance.now() - started) / 1000
  const after = bench.memoryKib()
  for (const { socket } of clients) socket.close(1000)
  const each = (part: keyof typeof before, now: typeof before): number =>
    (now[part] - before[part]) / (clients.length - 2)
  return [
    figure(`${clients.length} at once: ${many.lines} lines each, none lost`, 's', { Berth: seconds }),
    ...(['gateway', 'agents', 'consoles'] as const).flatMap((part) => [
      figure(`memory of each: ${part}, idle`, 'KiB', { Berth: each(part, idle) }),
      figure(`memory of each: ${part}, after output`, 'KiB', { Berth: each(part, after) }),
    ]),
  ]
}

async function showNumbers(client: ConsoleClient): Promise<void> {
  client.bytes = Buffer.alloc(0)
  client.type(`for n in $(busybox seq ${many.lines}); do echo line $n; done; echo fin""ished\r`)
  await client.shows(/finished\r\n/)
  const numbers = [...client.text.matchAll(/line (\d+)\r\n/g)].map(([, number]) => Number(number))
  if (numbers.some((number, at) => number !== at + 1) || numbers.length !== many.lines)
    throw new Error(`lines are missing: ${numbers.length} of ${many.lines}`)
}

/** Measures complete frames of a screen, requested in turns through Berth and directly from QEMU. */
async function benchScreen(bench: ConsoleBench, frames: number): Promise<Figure[]> {
  const [host] = bench.hosts
  await bench.create('vm', { host_id: bench.hostIds.get(host!.name), virtualization: 'kvm', ram_mb: 256 })
  const clients = {
    Berth: await RfbClient.open(overConsole(await bench.open('vnc', 'vm'))),
    'its socket': await RfbClient.open(overSocket(bench.screenSocket(host!))),
  }
  const times = { Berth: [] as number[], 'its socket': [] as number[] }
  let bytes = 0
  for (let round = -3; round < frames; round++)
    for (const name of ['Berth', 'its socket'] as const) {
      const started = performance.now()
      bytes = await clients[name].frame()
      if (round >= 0) times[name].push(performance.now() - started)
    }
  for (const client of Object.values(clients)) client.close()
  const title = `whole frame of a screen, ${(bytes / 1e6).toFixed(1)} MB`
  return [figure(title, 'ms', { Berth: median(times.Berth), 'its socket': median(times['its socket']) })]
}
