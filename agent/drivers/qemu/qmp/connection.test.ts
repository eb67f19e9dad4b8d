import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { BerthError } from '../../../../shared/errors.js'
import { QmpConnection, type ConnectionOptions, type MachineEvent } from './connection.js'
import { withGuestAgent } from './guest-agent.js'
import { mostLineBytes } from './messages.js'

const greeting = '{"QMP":{"version":{},"capabilities":[]}}\n'

/** The tests connect to a real socket, which sends arbitrary data. */
describe('a connection to QEMU or to a guest agent', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-qmp-'))
  const path = join(directory, 'socket')
  let server: Server | undefined

  afterEach(() => new Promise<void>((done) => (server ? server.close(() => done()) : done())))
  after(() => rmSync(directory, { recursive: true, force: true }))

  /** Starts a server. @param answer called for each message except the first */
  async function serve(answer: (message: { id: number; execute: string }, socket: Socket) => void, greets = greeting) {
    server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.write(greets)
      socket.on('data', (chunk: Buffer) => {
        for (const line of chunk.toString('latin1').replaceAll('\xff', '').split('\n').filter(Boolean)) {
          const message = JSON.parse(line) as { id: number; execute: string }
          if (message.execute === 'qmp_capabilities') socket.write(`{"return":{},"id":${message.id}}\n`)
          else answer(message, socket)
        }
      })
    })
    await new Promise<void>((done) => server!.listen(path, done))
  }

  const open = (more: Partial<ConnectionOptions> = {}): Promise<QmpConnection> =>
    QmpConnection.open({ path, timeoutMs: 200, greets: true, ...more })
  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'done',
      (error: unknown) => (error instanceof BerthError ? error.code : String(error)),
    )

  it('passes on answers, errors and events', async () => {
    const events: MachineEvent[] = []
    await serve(({ id, execute }, socket) => {
      if (execute === 'no') return socket.write(`{"error":{"class":"GenericError","desc":"no"},"id":${id}}\n`)
      socket.write(`{"event":"STOP","data":{"a":1}}\n{"return":{"it":"${execute}"},"id":${id}}\n`)
    })
    const connection = await open({ onEvent: (event) => events.push(event) })
    expect(await connection.execute('query')).to.deep.equal({ it: 'query' })
    expect(await codeOf(connection.execute('no'))).to.equal('machine_refused')
    expect(events).to.deep.equal([{ kind: 'event', name: 'STOP', data: { a: 1 } }])
    connection.close()
    expect(await codeOf(connection.execute('query'))).to.equal('machine_unreachable')
  })

  it('stops waiting at its timeout, and does not use a late answer as the answer to the next command', async () => {
    let late = 0
    await serve(({ id, execute }, socket) => {
      if (execute === 'slow') late = id
      else socket.write(`{"return":"late","id":${late}}\n{"return":"right","id":${id}}\n`)
    })
    const connection = await open()
    expect(await codeOf(connection.execute('slow', {}, 20))).to.equal('machine_timeout')
    expect(await connection.execute('query')).to.equal('right')
    connection.close()
  })

  it('stops reading if a virtual machine sends events endlessly', async () => {
    let heard = 0
    const flood = '{"event":"GUEST_PANICKED","data":{"action":"run"}}\n'.repeat(100_000)
    await serve(({ id }, socket) => socket.write(`${flood}{"return":1,"id":${id}}\n`))
    const connection = await open({ onEvent: () => heard++ })
    expect(await codeOf(connection.execute('query', {}, 500))).to.equal('machine_timeout')
    expect(heard).to.be.within(50, 5000)
    connection.close()
  })

  for (const said of [
    '{"return":1,"id":1}',
    '{"return":1}',
    '{"error":{"class":"GenericError","desc":"no"},"id":1}',
    '{"QMP":{}}',
  ])
    it(`stops reading if a guest agent sends the message ${said} endlessly`, async () => {
      let isRead = false
      await serve(({ id }, socket) => {
        socket.write(`${said}\n`.repeat(500_000), () => (isRead = true))
        socket.write(`{"return":1,"id":${id}}\n`)
      })
      const connection = await open({ greets: false })
      expect(await codeOf(connection.execute('query', {}, 500))).to.equal('machine_timeout')
      expect(isRead).to.equal(false)
      connection.close()
    })

  for (const [what, said] of [
    ['sends text that is not JSON', 'what?\n'],
    ['sends JSON that is not a message', '[1,2]\n'],
    ['sends a line that is too long', 'x'.repeat(mostLineBytes + 1)],
    ['sends an answer that is too long', `{"return":"${'x'.repeat(mostLineBytes)}"}\n`],
    ['ends the connection', undefined],
  ] as const)
    it(`closes if the virtual machine ${what}`, async () => {
      let closed = 0
      await serve((_message, socket) => void (said === undefined ? socket.destroy() : socket.write(said)))
      const connection = await open({ onClose: () => closed++, timeoutMs: 5000 })
      const pending = codeOf(connection.execute('query'))
      expect(['machine_unreachable', 'internal_error']).to.include(await pending)
      expect([connection.closed, closed]).to.deep.equal([true, 1])
    })

  it('opens only if the other side exists and sends a greeting', async () => {
    await serve(() => undefined, '{"event":"NOTHING"}\n')
    expect(await codeOf(open({ timeoutMs: 50 }))).to.equal('machine_timeout')
    expect(await codeOf(open({ path: `${path}-none` }))).to.equal('machine_unreachable')
  })

  describe('with a guest agent', () => {
    const ask = (): Promise<unknown> => withGuestAgent(path, (agent) => agent.ask('guest-ping'), 100)

    it('opens if the agent answers, even if the rest of an earlier answer arrives first', async () => {
      await serve((message, socket) => {
        const { id, execute } = message
        const args = (message as unknown as { arguments?: { id: number } }).arguments
        if (execute === 'guest-sync-delimited') socket.write(`\xff{"return":${args!.id},"id":${id}}\n`, 'latin1')
        else socket.write(`{"return":"pong","id":${id}}\n`)
      }, 'left over from before\n\xff')
      expect(await ask()).to.equal('pong')
    })

    it('does not open if the agent sends no answer, an answer to another request, or too much data', async () => {
      for (const said of ['', '{"return":1,"id":ID}\n', 'x'.repeat(mostLineBytes + 1)]) {
        await serve(({ id }, socket) => void socket.write(said.replace('ID', `${id}`)), '')
        expect(await codeOf(ask()), said.slice(0, 20)).to.equal('guest_agent_missing')
        await new Promise<void>((done) => server!.close(() => done()))
        server = undefined
      }
    })
  })
})
