import { expect } from 'chai'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import { parseListeningPorts, readListeningPorts } from './listening-ports.js'

const head = '  sl  local_address rem_address   st tx_queue rx_queue\n'

describe('listening ports', () => {
  it('are those of sockets that wait', () => {
    const text = `${head}   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000
   1: 00000000:0016 00000000:0000 0A 00000000:00000000
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000
   3: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0
`
    expect(parseListeningPorts(text, 'tcp')).to.deep.equal([8080, 22, 443])
    expect(parseListeningPorts('', 'tcp')).to.deep.equal([])
  })

  it('are read from the host', async () => {
    const server = createServer()
    const socket = createSocket('udp6')
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    await new Promise<void>((resolve) => socket.bind(0, '::1', resolve))
    const ports = await readListeningPorts()
    expect(ports).to.include(`tcp:${(server.address() as { port: number }).port}`)
    expect(ports).to.include(`udp:${socket.address().port}`)
    server.close()
    socket.close()
  })
})
