import { pipeline } from 'node:stream/promises'
import type { TLSSocket } from 'node:tls'
import { describeError } from '../../shared/errors.js'
import type { TransferIdentity } from '../guests/moves/arrival-details.js'
import { arrivalJournal } from '../guests/moves/disk-journal.js'
import { memoryProtocol } from '../guests/moves/frame-stream.js'
import { TransferReceiver, type ReceiverParts } from '../guests/moves/receive-transfer.js'
import type { StandbyCopies } from '../guests/standby/standby-copies.js'
import type { AgentTls } from './tls.js'

/** Receives guests from other hosts, one per connection. A running guest has another connection for its memory. */
export interface TransferService {
  serve(socket: TLSSocket, tls: Pick<AgentTls, 'readTicket' | 'guard'>): void
  close(): void
}

export interface TransferParts extends ReceiverParts {
  readonly standbys: Pick<StandbyCopies, 'openJournal'>
}

export function createTransferService(parts: TransferParts): TransferService {
  /**
   * Connections by the protocol and the id of their move. A newer connection of a move shows that the older one is
   * broken, and replaces it.
   */
  const open = new Map<string, TLSSocket>()
  return {
    serve: (socket, tls) => {
      socket.on('error', () => undefined) // without a listener, Node would throw; readers of the socket get the error
      try {
        const { moveId, fromHostId, guestUuid: uuid } = tls.readTicket(socket.getPeerCertificate())
        const transfer = { moveId, fromHostId, uuid }
        const isMemory = socket.alpnProtocol === memoryProtocol
        const journal = (isMemory ? undefined : parts.standbys.openJournal(transfer)) ?? arrivalJournal(parts, transfer)
        journal.check()
        tls.guard.trust(socket)
        const key = `${socket.alpnProtocol} ${moveId}`
        open.get(key)?.destroy()
        open.set(key, socket)
        socket.once('close', () => open.get(key) === socket && open.delete(key))
        if (isMemory) void receiveMemory(parts, transfer, socket)
        else void new TransferReceiver(parts, transfer, socket, { disks: journal }).run()
      } catch (error) {
        refuse(parts, socket, error)
      }
    },
    close: () => open.forEach((socket) => socket.destroy()),
  }
}

/** Interval in ms of keep-alives, and of checks whether this host still expects the guest. */
const checkMs = 10_000

/**
 * Passes the memory of a running guest to the process that was prepared for it. The transfer ends when this process or
 * the move ends, or when the source no longer answers. The process then ends, too.
 */
async function receiveMemory(parts: ReceiverParts, transfer: TransferIdentity, socket: TLSSocket): Promise<void> {
  socket.setKeepAlive(true, checkMs)
  const timer = setInterval(() => endUnexpected(parts, transfer, socket), checkMs).unref()
  try {
    await pipeline(socket, await parts.live.openMemory(transfer.uuid))
  } catch (error) {
    refuse(parts, socket, error)
  } finally {
    clearInterval(timer)
    socket.destroy()
  }
}

function endUnexpected({ received }: ReceiverParts, transfer: TransferIdentity, socket: TLSSocket): void {
  try {
    received.check(transfer)
  } catch {
    socket.destroy()
  }
}

function refuse({ log }: ReceiverParts, socket: TLSSocket, error: unknown): void {
  log.warn({ reason: describeError(error) }, 'a transfer from another host was refused or interrupted')
  socket.destroy()
}
