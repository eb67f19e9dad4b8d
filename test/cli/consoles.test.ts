import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { outputRecord } from '../../shared/program-output.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthTerminal, startBerth, type RunningCommand } from '../support/cli/berth.js'
import { ConsoleLab, ownProtocol } from '../support/gateway/console-lab.js'
import { waitFor } from '../support/wait.js'

describe('programs and screens without SSH', () => {
  let lab: ConsoleLab
  let guest: Guest
  let directory: string
  before(async () => {
    lab = await ConsoleLab.start()
    directory = await mkdtemp(join(tmpdir(), 'btest-cli-consoles-'))
  })
  after(async () => {
    await lab.close()
    await rm(directory, { recursive: true, force: true })
  })
  beforeEach(async () => {
    guest = await lab.addGuest()
  })
  afterEach(() => lab.endAll())

  const env = () => ({ HOME: directory, BERTH_URL: lab.gateway.url, BERTH_KEY: lab.gateway.adminKey })
  const berth = (...args: string[]): RunningCommand => startBerth(args, env())

  async function ticket(command: readonly unknown[], container = guest.name) {
    const { status, body } = await lab.gateway.request('POST', '/ssh-ticket', { body: { container, command } })
    return { status, body }
  }

  /** Opens the socket of a console that runs a program in the guest. */
  async function run(command: readonly string[], query: Record<string, string> = { mode: 'run' }) {
    const { body } = await ticket(command)
    const client = lab.connect('/api/v1/ssh', {
      protocols: [ownProtocol, `berth-ticket.${String(body.data.ticket)}`],
      query: { container: guest.name, ...query },
    })
    return client
  }

  async function running(command: readonly string[] = ['tar', '', '--', "a 'b'"]) {
    const client = await run(command)
    await client.ready()
    return { client, terminal: lab.terminal(guest) }
  }

  describe('a console in the mode “run”', () => {
    it('passes the words of the command, the input and its end, stdout, stderr and the exit code', async () => {
      const { client, terminal } = await running()
      expect([terminal.mode, terminal.command]).to.deep.equal(['run', ['tar', '', '--', "a 'b'"]])
      client.type('input')
      client.say({ type: 'eof' })
      await waitFor(() => terminal.hasInputEnded, { what: 'the end of the input' })
      expect(terminal.input).to.equal('input')
      const output = Buffer.concat([outputRecord(1, Buffer.from('out')), outputRecord(2, Buffer.from('err'))])
      terminal.show(output)
      terminal.exit(7)
      await waitFor(() => client.states.some(({ state }) => state === 'exited'), { what: 'the exit code' })
      expect(client.states.at(-1)).to.deep.equal({ type: 'status', state: 'exited', exit_code: 7 })
      expect(client.bytes).to.deep.equal(output)
      client.socket.close(1000)
      await waitFor(() => lab.gateway.api.consoles.size === 0, { what: 'no consoles' })
    })

    it('writes the name of the program, but not its arguments, to the audit log', async () => {
      const { client } = await running(['mysql', '--password=secret-7'])
      client.socket.close(1000)
      const entries = await waitFor(async () => {
        const { body } = await lab.gateway.request('GET', '/audit-logs')
        const text = JSON.stringify(body)
        return text.includes('console.close') ? text : undefined
      })
      expect(entries).to.contain('run mysql').and.not.to.contain('secret-7')
    })

    it('ends the program when the client has disconnected', async () => {
      const { client, terminal } = await running()
      client.socket.terminate()
      await waitFor(() => terminal.closed, { what: 'the program is ended' })
    })

    it('reports how much input was accepted, and ends the program if too much input is unread', async () => {
      const { client, terminal } = await running()
      client.type(Buffer.alloc(60_000))
      await waitFor(() => client.texts.includes('{"type":"taken","bytes":60000}'), { what: 'a report' })
      terminal.takes = false
      for (let sent = 0; sent < 300_000; sent += 60_000) client.type(Buffer.alloc(60_000))
      expect(await client.ended()).to.deep.equal({ code: 4400, reason: 'bad_frame' })
    })

    it('refuses input after the client has ended the input', async () => {
      const { client } = await running()
      client.say({ type: 'eof' })
      client.type('x')
      expect(await client.ended()).to.deep.equal({ code: 4400, reason: 'bad_frame' })
    })

    it('refuses to end the input of a terminal', async () => {
      const { client } = await lab.opened(guest)
      client.say({ type: 'eof' })
      expect(await client.ended()).to.deep.equal({ code: 4400, reason: 'bad_frame' })
    })

    it('accepts a ticket only in the mode (program or terminal) for which the ticket was requested', async () => {
      const asShell = await run(['true'], {})
      expect((await asShell.ended()).code).to.equal(4401)
      const asProgram = await lab.open(guest.name, { query: { mode: 'run' } })
      expect((await asProgram.ended()).code).to.equal(4401)
    })

    it('cannot be resumed', async () => {
      const client = await run(['true'], { mode: 'run', resume: 'abc' })
      expect((await client.refusal()).code).to.equal('invalid_request')
    })

    for (const [name, command] of [
      ['no words', []],
      ['an empty program', ['']],
      ['a NUL character', ['cat', 'a\0b']],
      ['too many words', Array.from({ length: 257 }, () => 'a')],
      ['too many bytes', ['a'.repeat(8192)]],
      ['a word that is not a text', ['cat', 5]],
    ] as const)
      it(`refuses a command with ${name}`, async () => {
        const { status, body } = await ticket(command)
        expect([status, body.code]).to.deep.equal([400, 'invalid_field'])
      })
  })

  it('berth run recommends SSH for a virtual machine', async () => {
    const machine = await lab.addGuest({ virtualization: 'kvm' })
    const { code, err } = await berth('run', machine.name, '--', 'true').ended
    expect([code, err]).to.deep.equal([
      2,
      `berth: programs can only be run in containers, not in virtual machines: use SSH, such as berth ssh ${machine.name} -- COMMAND (unsupported)\n`,
    ])
  })

  it('berth run fails with the reason if its output cannot be written, but ends quietly if nobody reads it', async () => {
    /** Runs a program that prints `out`. @returns the exit code and the other output */
    const run = async (from: Guest, rest: string): Promise<[string, string]> => {
      const script = `"${process.execPath}" dist/cli/main.js run ${from.name} -- cat ${rest}; echo " \${PIPESTATUS[0]}"`
      const ending = promisify(execFile)('bash', ['-c', script], { env: { ...process.env, ...env() } })
      await waitFor(() => lab.consoles.terminals.some((one) => one.guestUuid === from.uuid), { what: 'a program' })
      lab.terminal(from).show(outputRecord(1, Buffer.from('out')))
      const { stdout, stderr } = await ending
      return [stdout, stderr]
    }
    expect(await run(guest, '</dev/null >/dev/full')).to.deep.equal([
      ' 1\n',
      'berth: the output cannot be written: no space left on device\n',
    ])
    expect(await run(await lab.addGuest(), '</dev/null | true')).to.deep.equal([' 141\n', ''])
  })

  it('berth logs removes control characters only if its output is a terminal', async () => {
    const line = 'a\u001b]0;title\u0007\tb\n'
    const print = async (from: Guest, isShown: () => boolean): Promise<void> => {
      await waitFor(() => lab.consoles.terminals.some((one) => one.guestUuid === from.uuid && one.hasInputEnded), {
        what: 'a program without input',
      })
      const terminal = lab.terminal(from)
      for (const stream of [1, 2] as const) terminal.show(outputRecord(stream, Buffer.from(line)))
      await waitFor(isShown, { what: 'the output' })
      terminal.exit(0)
    }
    const piped = berth('logs', guest.name)
    await print(guest, () => piped.out() === line && piped.err() === line)
    expect((await piped.ended).code).to.equal(0)
    const other = await lab.addGuest()
    const shown = new BerthTerminal(['logs', other.name], env())
    await print(other, () => shown.text.split('b\r\n').length === 3)
    expect(await shown.ended, shown.text).to.equal(0)
    expect(shown.text).to.match(/^(a\]0;title\s+b\r\n){2}$/)
  })

  describe('berth vnc', () => {
    let screen: Server
    before(async () => {
      screen = createServer((socket) => {
        socket.write('RFB 003.008\n')
        socket.on('data', (bytes) => socket.write(Buffer.from(bytes).reverse()))
        socket.on('error', () => undefined)
      })
      screen.listen(join(directory, 'vnc.sock'))
      await once(screen, 'listening')
      lab.agent.host.driver.screen = join(directory, 'vnc.sock')
    })
    after(() => {
      lab.agent.host.driver.screen = undefined
      screen.close()
    })

    /** A connection may be reset when it ends, which VNC viewers report in the same way as an end. */
    const openViewer = (port: number): Socket => connect(port, '127.0.0.1').on('error', () => undefined)

    it('forwards each connection to the screen, and ends with Ctrl-C', async () => {
      const machine = await lab.addGuest({ virtualization: 'kvm' })
      const started = berth('vnc', machine.name)
      await waitFor(() => started.out().endsWith('\n'), { what: () => `an address: ${started.err()}` })
      const [host = '', port] = started.out().trim().split(':')
      expect(host).to.equal('127.0.0.1')
      const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251))
      for (const content of [Buffer.from([0, 255, 10]), bytes]) {
        const viewer = openViewer(Number(port))
        let received = Buffer.alloc(0)
        viewer.on('data', (chunk) => (received = Buffer.concat([received, chunk])))
        viewer.write(content)
        const length = 12 + content.length
        await waitFor(() => received.length === length, { what: () => `${received.length} of ${length} bytes` })
        expect(received.subarray(0, 12).toString()).to.equal('RFB 003.008\n')
        expect(Buffer.from(received.subarray(12)).sort()).to.deep.equal(Buffer.from(content).sort())
        viewer.end()
        await waitFor(() => viewer.closed, { what: 'the end of the connection' })
      }
      const viewer = openViewer(Number(port)).resume()
      await waitFor(() => lab.gateway.api.consoles.size === 1, { what: 'a connection' })
      started.child.kill('SIGINT')
      await waitFor(() => viewer.closed, { what: 'the end of the connection' })
      expect((await started.ended).code, started.err()).to.equal(0)
    })

    it('refuses a container, and an invalid port number', async () => {
      expect((await berth('vnc', guest.name).ended).code).to.equal(5)
      for (const port of ['0', '65536', 'x'])
        expect((await berth('vnc', guest.name, '--port', port).ended).code).to.equal(2)
    })
  })
})
