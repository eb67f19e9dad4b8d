import { expect } from 'chai'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { connectAgent, type AgentConnection } from '../../gateway/fleet/agent-connection.js'
import { WatchSession } from '../../gateway/fleet/watch-session.js'
import { createTestPki, type TestPki } from '../support/pki.js'
import { freePort } from '../support/ports.js'
import { SimulatedAgent } from '../support/simulated-agent.js'
import { SimulatedHost } from '../support/simulated-host.js'
import { waitFor } from '../support/wait.js'

const hostId = 'h-1'

describe('connections to agents', () => {
  let pki: TestPki
  let agent: SimulatedAgent
  let proxy: Server
  const dialled: Socket[] = []

  before(async () => {
    pki = await createTestPki()
    const { identityDir } = await pki.enrol(hostId)
    agent = await SimulatedAgent.start({ identityDir, host: new SimulatedHost(hostId) })
    const [host = '', port] = agent.address.split(':')
    proxy = createServer((socket) => {
      dialled.push(socket)
      const through = connect(Number(port), host)
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

  it('closed while its agent is away, one is gone for good when the agent is back', async () => {
    const port = await freePort()
    const connection = await open(port)
    const ended = await new Promise<unknown>((done) => {
      const handlers = { synced: () => Promise.resolve(), changed: () => undefined, ended: done }
      return new WatchSession(connection, { epoch: '', revision: 0 }, handlers)
    })
    expect(String(ended)).to.match(/ECONNREFUSED/)
    await new Promise<void>((done) => proxy.listen(port, '127.0.0.1', done))
    // grpc-js dials once more when its pause is over.
    await waitFor(() => dialled.length > 0, { what: 'another attempt' })
    await waitFor(() => dialled.every(({ destroyed }) => destroyed), { what: 'the attempt to be given up' })
    expect(connection.peer()).to.equal(undefined)
  })

  async function open(port: number): Promise<AgentConnection> {
    return connectAgent({
      ...{ hostId, address: `127.0.0.1:${port}`, caPem: pki.authority.caPem, silenceMs: 3000 },
      leaf: await pki.gatewayLeaf(),
      isRevoked: () => false,
    })
  }
})
