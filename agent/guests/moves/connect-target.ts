import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls'
import { BerthError } from '../../../shared/errors.js'
import { createPeerCheck, identityDnsName } from '../../../shared/identity.js'
import { splitHostPort } from '../../../shared/join-token.js'
import { getIdentity } from '../../enrollment/identity.js'
import { memoryProtocol, transferProtocol } from './frame-stream.js'

/** The agent of the target, and the ticket for the transfer. */
export interface TransferTarget {
  readonly hostId: string
  /** host:port of the agent on the target host. */
  readonly address: string
  /** Serial numbers of the certificates that the target's agent had when the ticket was issued. */
  readonly serials: readonly string[]
  /** The ticket in PEM: a certificate for `key`. */
  readonly ticket: string
  /** Private key of the ticket, in PEM. */
  readonly key: string
  /** True for the connection that carries the memory of a running guest. */
  readonly isForMemory?: boolean
}

/** Time in ms after which a connection attempt fails if no data arrives. */
const silenceMs = 120_000

/** Connects to the target with mutual TLS. @throws {BerthError} `target_unreachable` */
export async function connectTarget(
  stateDir: string,
  { hostId, address, serials, ticket, key, isForMemory = false }: TransferTarget,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const own = getIdentity(join(stateDir, 'identity'))
  const identity = { role: 'agent', hostId } as const
  const ticketMs = Date.parse(new X509Certificate(ticket).validFrom)
  // The target may have renewed its certificate. A certificate that is newer than the ticket is therefore accepted.
  const isRevoked = (serial: string, notBeforeMs: number): boolean =>
    !serials.includes(serial) && notBeforeMs < ticketMs
  const check = createPeerCheck({ identity, isRevoked })
  const socket = connect({
    ...splitHostPort(address),
    servername: identityDnsName(identity),
    ca: [...own.authorities],
    cert: ticket,
    key,
    minVersion: 'TLSv1.3',
    ciphers: 'DEFAULT@SECLEVEL=2',
    ALPNProtocols: [isForMemory ? memoryProtocol : transferProtocol],
    checkServerIdentity: (_name, certificate) => problemOf(() => void check(certificate)),
  })
  socket.setTimeout(silenceMs, () =>
    socket.destroy(new Error(`the connection to the target host carried no data for ${silenceMs / 1000} s`)),
  )
  // An error without a listener would end the agent, for example if the move is canceled during the handshake.
  socket.on('error', () => undefined)
  const abort = (): void => void socket.destroy(new Error('aborted'))
  signal.addEventListener('abort', abort, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', abort))
  try {
    await once(socket, 'secureConnect', { signal })
  } catch (cause) {
    socket.destroy()
    throw new BerthError('unavailable', 'target_unreachable', `the target host cannot be reached at ${address}`, {
      cause,
    })
  }
  socket.setTimeout(0) // from now on, the reader of the stream has its own time limit
  return socket
}

function problemOf(check: (certificate?: PeerCertificate) => void): Error | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    return error as Error
  }
}
