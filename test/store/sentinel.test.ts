import { expect } from 'chai'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { Sentinel } from '../../gateway/store/sentinels/sentinel.js'
import { waitFor } from '../support/wait.js'

/** Starts a server that accepts connections and never answers, like a stopped process. */
async function startSilentServer(accept: (socket: Socket) => void): Promise<Server> {
  const server = createServer(accept)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

describe('the connection to a Sentinel', () => {
  it('is closed each time the Sentinel accepts it but does not answer', async () => {
    const open = new Set<Socket>()
    let accepted = 0
    const server = await startSilentServer((socket) => {
      accepted++
      open.add(socket.resume())
      socket.once('close', () => open.delete(socket))
      socket.on('error', () => undefined)
    })
    const address = { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
    const access = { username: '', passwordFile: '', tls: undefined }
    const sentinel = new Sentinel({ address, masterName: 'lab', access })
    try {
      for (const attempt of [1, 2, 3]) {
        expect(await sentinel.ask()).to.equal(undefined)
        await waitFor(() => accepted === attempt, { what: `connection ${attempt}` })
      }
      await waitFor(() => open.size === 0, { what: 'all connections are closed' })
    } finally {
      sentinel.close()
      for (const socket of open) socket.destroy()
      server.close()
    }
  })
})
