import { expect } from 'chai'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { parseListeningPorts, readListeningPorts } from './listening-ports.js'

const head = '  sl  local_address rem_address   st tx_queue rx_queue\n'

describe('listening ports', () => {
  it('are parsed only from the rows of listening sockets', () => {
    const text = `${head}   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000
   1: 00000000:0016 00000000:0000 0A 00000000:00000000
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000
   3: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0
`
    expect(parseListeningPorts(text, 'tcp')).to.deep.equal([8080, 22, 443])
    expect(parseListeningPorts('', 'tcp')).to.deep.equal([])
  })

  it('of this host include the ports of a TCP and a UDP socket', async () => {
    const server = createServer()
    const socket = createSocket('udp6')
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    await new Promise<void>((resolve) => socket.bind(0, '::1', resolve))
    const ports = await readListeningPorts()
    expect(ports).to.include(`tcp:${(server.address() as { port: number }).port}`)
    expect(ports).to.include(`udp:${socket.address().port}`)
    expect([...(await readListeningPorts(['udp']))].filter((key) => !key.startsWith('udp:'))).to.deep.equal([])
    server.close()
    socket.close()
  })

  it('of TCP include the ports of listening sockets, but not the ports of connections', async () => {
    const servers = ['127.0.0.1', '::1', '::'].map((address) => createServer().listen(0, address))
    await Promise.all(servers.map((server) => once(server, 'listening')))
    const portOf = (server: Server): number => (server.address() as { port: number }).port
    const client = connect(portOf(servers[0]!), '127.0.0.1')
    await once(client, 'connect')
    const ports = await readListeningPorts(['tcp'])
    expect(ports).to.include.all.keys(servers.map((server) => `tcp:${portOf(server)}`))
    expect(ports).to.not.include(`tcp:${client.localPort}`)
    client.destroy()
    for (const server of servers) server.close()
  })
})
