import type { ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import { copyFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { identityPaths } from '../../agent/enrollment/identity.js'
import { AgentLink } from '../../gateway/fleet/agents/agent-link.js'
import { GrpcAgentClient } from '../../gateway/fleet/agents/agent-client.js'
import { connectAgent, type AgentConnection, type AgentTarget } from '../../gateway/fleet/agents/agent-connection.js'
import { KeyedCondition } from '../../shared/async/keyed-condition.js'
import type { ConsoleOutput } from '../../gateway/fleet/agent-contract.js'
import { HostState } from '../../gateway/fleet/host-state.js'
import { WatchSession } from '../../gateway/fleet/watch-session.js'
import { ConsoleOpened, OpenConsoleResponse } from '../../proto/gen/berth/agent/v1/console.js'
import { notFound } from '../../shared/errors.js'
import { frameOf } from '../../shared/framing.js'
import { fromServiceError, toRefusal } from '../../shared/grpc-errors.js'
import { createTestPki, type TestPki } from '../support/gateway/pki.js'
import { freePort } from '../support/ports.js'
import { createOrder, createRequest } from '../support/host/agent-calls.js'
import { RogueAgent, type RogueOptions } from '../support/attacks/rogue-agent.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

const hostId = 'h-1'

describe('connections to agents', () => {
  let pki: TestPki
  let agent: RogueAgent
  let proxy: Server
  const dialled: Socket[] = []
  /** Connections from the proxy to the agent. A paused connection passes on no data. */
  const passed: Socket[] = []
  let asked = 0
  const uploads: Parameters<NonNullable<RogueOptions['onArchive']>>[0][] = []

  before(async () => {
    pki = await createTestPki()
    const { identityDir } = await pki.enrol(hostId)
    agent = await RogueAgent.start(identityDir, { onCall: onCreate, onArchive: (call) => void uploads.push(call) })
    const [host = '', port] = agent.address.split(':')
    proxy = createServer((socket) => {
      dialled.push(socket)
      const through = connect(Number(port), host)
      passed.push(through)
      socket
        .on('error', () => undefined)
        .pipe(through.on('error', () => undefined))
        .pipe(socket)
    })
  })
  after(async () => {
    for (const socket of dialled) socket.destroy()
    proxy.close()
    agent.stop()
    await pki.remove()
  })

  it('are not opened again if the gateway closed them while the agent was offline', async () => {
    const port = await freePort()
    const connection = await open(port)
    const ended = await new Promise<unknown>((done) => {
      const handlers = { synced: () => Promise.resolve(), changed: () => undefined, ended: done }
      return new WatchSession(connection, { epoch: '', revision: 0, stored: new Map() }, handlers)
    })
    expect(String(ended)).to.match(/ECONNREFUSED/)
    await new Promise<void>((done) => proxy.listen(port, '127.0.0.1', done))
    // After a delay, grpc-js tries to connect once more by itself. The gateway must end this attempt.
    await waitFor(() => dialled.length > 0, { what: 'another attempt' })
    await waitFor(() => dialled.every(({ destroyed }) => destroyed), { what: 'the attempt to be given up' })
    expect(connection.peer()).to.equal(undefined)
  })

  it('are closed at the old gateway, and stay open at the new one, after the agent changed its gateway', async () => {
    const moves = Array.from({ length: 12 }, (_, n) => moveOnce(`h-moved-${n}`))
    expect(await Promise.all(moves)).to.deep.equal(Array(12).fill('former: ended, new: open'))
  })

  /** Lets an agent join another gateway, which connects. @returns states of the former and the new connection */
  async function moveOnce(name: string): Promise<string> {
    const { identityDir } = await pki.enrol(name)
    const moving = await RogueAgent.start(identityDir)
    const port = Number(moving.address.split(':')[1])
    const former = await watch(await open(port, { hostId: name }))
    const other = await pki.enrol(`${name}-other`)
    await copyFile(identityPaths(other.identityDir).identity, identityPaths(identityDir).identity)
    moving.tls.reload()
    const next = await watch(await open(port, { hostId: `${name}-other` }))
    try {
      await waitFor(() => former.ended, { what: 'the former connection to end' })
      await delay(200)
      const states = [former, next].map(({ ended }) => (ended ? 'ended' : 'open'))
      return `former: ${states[0]}, new: ${states[1]}`
    } finally {
      next.close()
      moving.stop()
    }
  }

  /** Starts a watch. Resolves when it is in sync with the agent. */
  async function watch(connection: AgentConnection): Promise<WatchSession> {
    return new Promise((done, fail) => {
      const synced = (): Promise<void> => Promise.resolve(done(session))
      const handlers = { synced, changed: () => undefined, ended: fail }
      const session: WatchSession = new WatchSession(
        connection,
        { epoch: '', revision: 0, stored: new Map() },
        handlers,
      )
    })
  }

  it('continue an upload that waits for its agent after the gateway has replaced the connection', async () => {
    const port = Number(agent.address.split(':')[1])
    const connection = await open(port, { silenceMs: 6000 })
    const opening = clientOn(connection, 60_000).receiveArchive({ id: 'upload', bytes: 0 })
    await waitFor(() => uploads.length > 0, { what: 'the call to arrive' })
    const [call] = uploads
    call!.write({ state: { $case: 'accepted', value: {} } })
    const upload = await opening
    connection.close()
    await delay(3000) // more than a third of `silenceMs`, after which the connection is pinged
    call!.write({ state: { $case: 'wanted', value: {} } })
    call!.resume().once('end', () => {
      call!.write({ state: { $case: 'unpacked', value: {} } })
      call!.end()
    })
    const part = Buffer.from('part')
    const archive = (async function* () {
      yield part
    })()
    expect(await codeOf(upload.send(archive, new AbortController().signal))).to.equal('ok')
  })

  describe('during a call', () => {
    let port: number
    let connection: AgentConnection
    let sent: Promise<string>
    before(async () => {
      port = await freePort()
      proxy.close()
      await new Promise<void>((done) => proxy.listen(port, '127.0.0.1', done))
    })
    beforeEach(async () => {
      asked = 0
      connection = await open(port)
      sent = codeOf(clientOn(connection, 10_000).operations.submitOperation(createOrder(createRequest(1, 'web'))))
      await waitFor(() => asked > 0)
    })
    afterEach(() => {
      connection.close()
      for (const socket of [...dialled.splice(0), ...passed.splice(0)]) socket.destroy()
    })

    it('leave the outcome of a sent call unknown if the connections break', async () => {
      for (const socket of dialled) socket.destroy()
      expect(await sent).to.equal('agent_timeout')
    })

    it('leave the outcome of a sent call unknown if the agent sends no more data', async () => {
      for (const socket of passed) socket.pause()
      expect(await sent).to.equal('agent_timeout')
    })

    it('make a call that was not sent yet fail with “host_offline”', async () => {
      const away = await open(await freePort())
      expect(await codeOf(clientOn(away, 10_000).guests.getGuestUsage({ uuid: '' }))).to.equal('host_offline')
      away.close()
      const mute = createServer((socket) => dialled.push(socket))
      await new Promise<void>((done) => mute.listen(0, '127.0.0.1', done))
      const dialling = await open((mute.address() as AddressInfo).port)
      expect(await codeOf(clientOn(dialling, 500).guests.getGuestUsage({ uuid: '' }))).to.equal('host_offline')
      dialling.close()
      mute.close()
    })
  })

  describe('for a console', () => {
    let ended: ServiceError | undefined
    let heard: string[]
    const listener = {
      onMessage: ({ $case }: ConsoleOutput) => void heard.push($case),
      onEnd: (error: ServiceError) => (ended = error),
    }
    const opened = frameOf(
      OpenConsoleResponse.encode({ message: { $case: 'opened', value: ConsoleOpened.create() } }).finish(),
    )
    const refused = frameOf(
      OpenConsoleResponse.encode({
        message: { $case: 'refusal', value: toRefusal(notFound('container')) },
      }).finish(),
    )
    let isRevoked = false
    beforeEach(() => {
      ;[ended, heard, isRevoked] = [undefined, [], false]
    })

    /** Opens a console at a simulated agent, which supports consoles only if `onConsole` is given. */
    async function openAt(onConsole: ((socket: Socket) => void) | undefined): Promise<() => void> {
      const { identityDir } = await pki.enrol(hostId)
      const rogue = await RogueAgent.start(identityDir, onConsole ? { onConsole } : {})
      const connection = await open(Number(rogue.address.split(':')[1]), { isRevoked: () => isRevoked })
      const stream = connection.openConsole(listener)
      stream.send({ $case: 'close', value: {} })
      return () => {
        stream.cancel()
        connection.close()
        rogue.stop()
      }
    }

    for (const [what, bytes, code, messages] of [
      ['the agent rejects it', [refused], 'not_found', []],
      [
        'the agent sends a frame that is too long',
        [opened, Buffer.from('00ffffff', 'hex')],
        'agent_timeout',
        ['opened'],
      ],
      [
        'the agent sends bytes that are not a message',
        [opened, frameOf(Buffer.from('ffff', 'hex'))],
        'agent_timeout',
        ['opened'],
      ],
      ['the agent sends no answer', [], 'agent_timeout', []],
    ] as const)
      it(`end with an error if ${what}`, async () => {
        const close = await openAt((socket) => {
          for (const chunk of bytes) socket.write(chunk)
          socket.end()
        })
        await waitFor(() => ended !== undefined).finally(close)
        expect(fromServiceError(ended, { step: 'open', left: true }).code).to.equal(code)
        expect(heard).to.deep.equal(messages)
      })

    it('report that the agent is too old if it does not support consoles', async () => {
      const close = await openAt(undefined)
      await waitFor(() => ended !== undefined).finally(close)
      expect(fromServiceError(ended, { step: 'open', left: false }).code).to.equal('agent_error')
    })

    it('end with a message soon after the agent’s certificate is revoked', async () => {
      let agentSide: Socket | undefined
      const close = await openAt((socket) => {
        agentSide = socket
        socket.write(opened)
      })
      try {
        await waitFor(() => heard.length > 0)
        isRevoked = true
        await waitFor(
          () => {
            agentSide?.write(opened)
            return ended !== undefined
          },
          { intervalMs: 20 },
        )
        expect(ended?.details).to.equal('the certificate of the peer is revoked')
      } finally {
        close()
      }
    })
  })

  /** Makes a client for calls to an agent. The client has only this connection, and never gets another one. */
  function clientOn(connection: AgentConnection, timeoutMs: number): GrpcAgentClient {
    const record = { id: hostId, version: 1, name: 'one', address: '', draining: false }
    const host = new HostState({ ...record, createdAtMs: 0, serials: [], certificateNotAfterMs: 0 })
    host.online = true
    const parts = { host, hostChanged: new KeyedCondition(), reconnectMs: 50, pauses: { check: () => 0 } }
    const link = new AgentLink({ ...parts, watcher: { connection }, expectedMs: () => 0 })
    return new GrpcAgentClient(link, timeoutMs)
  }

  /** Receives the request to create a guest, and never answers it. */
  function onCreate(): Promise<void> {
    asked++
    return new Promise(() => undefined)
  }

  async function open(port: number, more: Partial<AgentTarget> = {}): Promise<AgentConnection> {
    return connectAgent({
      hostId,
      address: `127.0.0.1:${port}`,
      caPems: [pki.authority.caPem],
      silenceMs: 3000,
      leaf: await pki.gatewayLeaf(),
      isRevoked: () => false,
      ...more,
    })
  }
})
