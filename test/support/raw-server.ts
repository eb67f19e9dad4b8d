import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'

/** A server on loopback that sends arbitrary bytes instead of HTTP. */
export interface RawServer {
  readonly url: string
  close(): Promise<void>
}

/** @param answer called once per connection, when the first bytes of a request have arrived */
export async function startRawServer(answer: (socket: Socket) => void): Promise<RawServer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined) // clients may cut the connection
    socket.once('close', () => sockets.delete(socket))
    socket.once('data', () => answer(socket.resume()))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Makes a function that sends an answer and then ends the connection, as servers without keep-alive do. */
export function closing(head: string, body: Buffer | string): (socket: Socket) => void {
  return (socket) => {
    socket.write(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n`)
    socket.end(body)
  }
}
