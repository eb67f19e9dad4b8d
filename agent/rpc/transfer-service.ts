import type { TLSSocket } from 'node:tls'
import { describeError } from '../../shared/errors.js'
import { TransferReceiver, type ReceiverParts } from '../guests/moves/receive-transfer.js'
import type { AgentTls } from './tls.js'

/** Receives guests from other hosts, one per connection. */
export interface TransferService {
  serve(socket: TLSSocket, tls: Pick<AgentTls, 'readTicket' | 'guard'>): void
  /** Ends all connections. */
  close(): void
}

export function createTransferService(parts: ReceiverParts): TransferService {
  /** Connections by the id of their move. A newer connection of a move replaces the older one, which has failed. */
  const open = new Map<string, TLSSocket>()
  return {
    serve: (socket, tls) => {
      socket.on('error', () => undefined) // without a listener, Node would throw; readers of the socket get the error
      try {
        const { moveId, fromHostId, guestUuid: uuid } = tls.readTicket(socket.getPeerCertificate())
        const transfer = { moveId, fromHostId, uuid }
        parts.arrivals.check(transfer)
        tls.guard.trust(socket)
        open.get(moveId)?.destroy()
        open.set(moveId, socket)
        socket.once('close', () => open.get(moveId) === socket && open.delete(moveId))
        void new TransferReceiver(parts, transfer, socket).run()
      } catch (error) {
        parts.log.warn({ reason: describeError(error) }, 'a transfer from another host was refused')
        socket.destroy()
      }
    },
    close: () => open.forEach((socket) => socket.destroy()),
  }
}
