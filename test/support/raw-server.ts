import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'

/** A server on loopback that says what it was told to, byte by byte, and not what HTTP asks for. */
export interface RawServer {
  readonly url: string
  close(): Promise<void>
}

/** @param answer is asked once for each connection, when the first bytes of a request have come */
export async function startRawServer(answer: (socket: Socket) => void): Promise<RawServer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined) // clients cut it off
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

/** Sends all of it and ends the connection at once, as servers do that keep none. */
export function closing(head: string, body: Buffer | string): (socket: Socket) => void {
  return (socket) => {
    socket.write(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n`)
    socket.end(body)
  }
}
