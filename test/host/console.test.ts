import { createHash } from 'node:crypto'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ConsoleClient } from '../support/gateway/console-client.js'
import type { GatewayProcess } from '../support/gateway/gateway-process.js'
import { processes } from '../support/host/inventory.js'
import { ServedHost } from '../support/host/served-host.js'
import { waitFor } from '../support/wait.js'
import { expectInTime } from '../support/promised-time.js'

const own = 'berth.console.v1'
/** Maximum size of output that the server sends without an acknowledgement from the client. */
const windowBytes = 512 * 1024
/** Matches the prompt of BusyBox, after which BusyBox requests the cursor position. */
// eslint-disable-next-line no-control-regex -- the pattern matches escape sequences
const prompt = /# (\x1b\[6n)?$/

/** Tests the way from a WebSocket through a real gateway, agent and console process to a real guest. */
describe('a console of a real guest', function () {
  const lab = new ServedHost({ name: 'fcn', prefix: '198.18.137' })
  const { host } = lab
  let gateway: GatewayProcess
  const clients: ConsoleClient[] = []

  before(async () => {
    await lab.start()
    gateway = lab.gateway
    // Several guests, because a guest gets only ten tickets per minute, and a reconnecting client uses several.
    for (const name of ['one', 'two', 'three', 'four']) await lab.create(name)
  })
  after(async () => {
    for (const { socket } of clients) socket.terminate()
    await lab.close()
  })
  afterEach(() => {
    for (const { socket } of clients.splice(0)) socket.close(1000)
  })

  async function open(container: string, query: Record<string, string> = {}): Promise<ConsoleClient> {
    const { ticket } = (await lab.send('POST', '/ssh-ticket', { container_name: container })).data
    const client = ConsoleClient.open(`${gateway.url}/api/v1/ssh`, {
      protocols: [own, `berth-ticket.${ticket}`],
      query: { container, ...query },
    })
    clients.push(client)
    return client
  }

  /** Repeats attempts to reconnect until one succeeds, like a client that lost its socket. */
  async function comeBack(container: string, query: Record<string, string>) {
    return waitFor(
      async () => {
        const { status } = await gateway
          .request('POST', '/ssh-ticket', { body: { container } })
          .catch(() => ({ status: 0 }))
        if (status !== 200) return undefined
        const client = await open(container, query)
        const opened = await client.ready().catch(() => undefined)
        return opened && { client, ...opened }
      },
      { intervalMs: 500, what: () => `back\n${host.logTail()}` },
    )
  }

  /** Opens a console with a shell at its prompt. */
  async function shell(container: string, query: Record<string, string> = {}) {
    const client = await open(container, query)
    const { resume } = await client.ready()
    await client.shows(prompt)
    return { client, resume }
  }

  /** Runs a command. @returns its output up to the next prompt */
  async function run(client: ConsoleClient, command: string): Promise<string> {
    client.bytes = Buffer.alloc(0)
    client.type(`${command}; echo d''one\r`)
    await client.shows(/\bdone\r\n/)
    return client.text
      .slice(client.text.indexOf('\r\n') + 2)
      .split('done\r\n', 1)[0]!
      .trim()
  }

  const holders = () => processes().filter(({ command }) => command.startsWith(`berth-console ${lab.directory}/`))

  it('has a root shell with the requested size, UTF-8 and a home directory, without access to the host', async () => {
    const { client } = await shell('one', { cols: '100', rows: '33' })
    expect(await run(client, 'busybox stty size')).to.equal('33 100')
    client.say({ type: 'resize', cols: 132, rows: 50 })
    await waitFor(async () => (await run(client, 'busybox stty size')) === '50 132', { what: 'the new size' })
    expect(await run(client, 'echo 中文 😀')).to.equal('中文 😀')
    expect(await run(client, 'pwd; echo $HOME $TERM $LANG; busybox id -u; umask')).to.equal(
      '/root\r\n/root xterm-256color C.UTF-8\r\n0\r\n0022',
    )
    const variables = await run(client, 'busybox env')
    expect(variables).not.to.match(/NODE|LXC|MALLOC|SUDO|SSH/)
    const others = await shell('two')
    const files = await run(others.client, 'for f in /proc/$$/fd/*; do busybox readlink $f; done')
    expect(files.split('\r\n').filter((file) => !/^\/dev\/pts\/\d+$|^\/dev\/tty$/.test(file))).to.deep.equal([])
    const directory = `${lab.directory}/fcn/run`
    const [socket = ''] = readdirSync(directory).filter((name) => /^console-\d+\.sock$/.test(name))
    expect(statSync(join(directory, socket)).mode & 0o777).to.equal(0o600)
  })

  it('shows 50 MB of output completely', async () => {
    const { client } = await shell('one')
    const bytes = 50 * 2 ** 20
    const expected = createHash('sha256')
    const line = `${'0123456789abcdef'.repeat(4)}\r\n`
    const lines = Math.ceil(bytes / line.length)
    expected.update(line.repeat(lines))
    const hash = createHash('sha256')
    let received = 0
    let isOn = false
    client.onBytes = (chunk) => {
      const from = isOn ? 0 : chunk.indexOf('BEGIN\r\n')
      if (!isOn && from < 0) return
      const part = isOn ? chunk : chunk.subarray(from + 7)
      isOn = true
      const left = lines * line.length - received
      hash.update(part.subarray(0, left))
      received += Math.min(left, part.length)
    }
    const started = performance.now()
    client.type(`echo BEG''IN; busybox yes ${line.trim()} | busybox head -n ${lines}\r`)
    await waitFor(() => received === lines * line.length, {
      what: () => `all of it, ${received}`,
    })
    console.log(`        ${Math.round(bytes / 2 ** 20 / ((performance.now() - started) / 1000))} MiB/s`)
    expect(hash.digest('hex')).to.equal(expected.digest('hex'))
  })

  it('stops a flood of output soon after Ctrl-C, while another guest’s console stays responsive', async () => {
    const { client: flooded } = await shell('one')
    const { client: other } = await shell('two')
    flooded.onBytes = (bytes) => (flooded.bytes = bytes.subarray(-2000))
    flooded.type(`busybox yes ${'y'.repeat(500)}\r`)
    await waitFor(() => flooded.received > 2_000_000, { what: 'a flood' })
    /** Types a text. @returns the bytes of the flood until `happens` is true; the machine's speed does not matter */
    const bytesUntil = async (text: string, client: ConsoleClient, happens: () => boolean): Promise<number> => {
      const before = flooded.received
      client.type(text)
      await waitFor(happens, { intervalMs: 1, what: `an answer to ${JSON.stringify(text)}` })
      return flooded.received - before
    }
    const echoes: number[] = []
    for (let n = 0; n < 40; n++) {
      const before = other.received
      echoes.push(await bytesUntil('x', other, () => other.received > before))
    }
    const median = echoes.sort((a, b) => a - b)[20]
    const rest = await bytesUntil('\x03', flooded, () => prompt.test(flooded.text))
    console.log(`        bytes of the flood: ${median} until an echo (median), ${rest} after Ctrl-C`)
    expect(median, 'bytes until an echo').to.be.below(windowBytes)
    expect(rest, 'bytes after Ctrl-C').to.be.below(4 * windowBytes)
  })

  it('continues with the same shell if the agent is killed', async () => {
    const { client, resume } = await shell('three')
    const pid = await run(client, 'echo $$')
    const [holder] = holders()
    await host.kill('SIGKILL')
    expect((await client.ended()).code).to.equal(1011)
    host.start()
    const { client: again, state } = await comeBack('three', { resume })
    expect(state).to.equal('resumed')
    await again.shows(/\[J$/) // shows the former output, and then the prompt again
    expect(await run(again, 'echo $$')).to.equal(pid)
    expect(holders().map((one) => one.pid)).to.deep.equal([holder!.pid])
  })

  it('continues with the same shell if the gateway is killed, and loses no output', async () => {
    const { client, resume } = await shell('four')
    const pid = await run(client, 'echo $$')
    client.type('for n in $(busybox seq 1 60000); do echo line $n; done; echo fin""ished\r')
    await client.shows(/line 2000\r\n/)
    await gateway.kill('SIGKILL')
    await client.ended()
    gateway.start()
    await gateway.ready()
    const query = { resume, received: String(client.received) }
    const { client: again, offset } = await comeBack('four', query)
    expect(offset).to.equal(client.received)
    await again.shows(/finished\r\n/)
    const all = Buffer.concat([client.bytes, again.bytes]).toString()
    const numbers = [...all.matchAll(/line (\d+)\r\n/g)].map(([, number]) => Number(number))
    expect(numbers).to.deep.equal(Array.from({ length: 60_000 }, (_, n) => n + 1))
    expect(await run(again, 'echo $$')).to.equal(pid)
  })

  it('uses little memory and processor time on the host if the guest does not read its input', async () => {
    const { client } = await shell('one')
    client.type('busybox stty raw -echo; echo re""ady; busybox sleep 1000\r')
    await client.shows(/ready/)
    const [holder] = holders()
    const before = memoryOf(holder!.pid)
    const time = cpuOf(holder!.pid)
    const isStuck = (): boolean => {
      if (client.socket.bufferedAmount > 0) return true
      for (let n = 0; n < 20; n++) client.type(Buffer.alloc(60_000, 120)) // the kernel's buffers take the first megabytes
      return false
    }
    await waitFor(isStuck, { what: 'the gateway reads no more' })
    const started = performance.now()
    await waitFor(() => performance.now() - started > 2000)
    expect(memoryOf(holder!.pid) - before, 'KiB').to.be.below(8 * 1024)
    expect(cpuOf(holder!.pid) - time, 'hundredths of a second').to.be.below(60)
  })

  it('leaves no process on the host if the process that holds the console open is killed', async () => {
    const { client: first } = await shell('two')
    await run(first, 'busybox ln -s "$(command -v busybox)" /bin/setsid')
    const { client } = await shell('two') // setsid lets the shell lead a session: a hang-up ends nothing on the host
    client.type(`trap '' HUP; echo re""ady; exec busybox sleep 600\r`)
    await client.shows(/ready/)
    const attached = () => processes().filter(({ command }) => /^\/usr\/bin\/lxc-attach .*fcn/.test(command))
    expect(attached()).not.to.deep.equal([])
    const [holder] = holders()
    process.kill(holder!.pid, 'SIGKILL')
    expect((await client.ended()).code).to.equal(1011)
    await waitFor(() => attached().length === 0, { what: 'no lxc-attach' })
  })

  it('ends when its guest stops', async () => {
    const { client } = await shell('two')
    const started = performance.now()
    await lab.send('POST', '/containers/two/stop', { force: true })
    const { code, reason } = await client.ended()
    expect([code, reason]).to.deep.equal([4409, 'not_running'])
    expectInTime(started, 5000, 'its end')
    await waitFor(async () => {
      const { body } = await gateway.request('GET', '/containers/two')
      return body.data.status === 'stopped'
    })
    const { status, body } = await gateway.request('POST', '/ssh-ticket', { body: { container_name: 'two' } })
    expect([status, body.code]).to.deep.equal([409, 'invalid_state'])
  })
})

/** Resident memory of a process in KiB. */
function memoryOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Processor time of a process, in hundredths of a second. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return Number(fields[11]) + Number(fields[12])
}
