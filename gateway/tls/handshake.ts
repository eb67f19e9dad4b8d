import type { AddressInfo } from 'node:net'
import { connect, createServer, type ConnectionOptions, type PeerCertificate, type TLSSocket } from 'node:tls'
import { checkServerIdentity } from 'node:tls'
import { isIP } from 'node:net'
import { BerthError } from '../../shared/errors.js'
import type { KeyedChain } from './certificate.js'

/** TLS versions that all listeners with a certificate support. */
export const tlsVersions = { minVersion: 'TLSv1.2' } as const

const timeoutMs = 5000

export interface HandshakeOptions {
  /** Name or address that clients use. */
  readonly target: string
  /** Trusted root certificates in PEM. */
  readonly roots: readonly string[]
}

/** A certificate as clients see it. */
export interface PresentedCertificate {
  /** SHA-256 of the certificate, in hexadecimal with colons. */
  readonly fingerprint: string
  /** True if a client that trusts only `roots` accepts the certificate for the server's name or address. */
  readonly trusted: boolean
}

/** Tests a certificate with a client and a temporary server on loopback. @throws {BerthError} `certificate_unusable` */
export async function tryHandshake(material: KeyedChain, options: HandshakeOptions): Promise<PresentedCertificate> {
  try {
    const server = createServer({ cert: material.chainPem, key: material.keyPem, ...tlsVersions })
    server.on('tlsClientError', () => undefined) // the client reports the same error
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    try {
      const { port } = server.address() as AddressInfo
      return await handshakeWith({ host: '127.0.0.1', port }, options)
    } finally {
      server.close()
    }
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code ?? 'no answer'
    const message = `a test connection with the certificate failed: ${why}`
    // The cause is omitted, because it could contain parts of the key. The code is specific enough.
    throw new BerthError('invalid', 'certificate_unusable', message, { field: 'cert_pem' })
  }
}

/** Connects to a server and checks its certificate. @throws the error of the connection */
export function handshakeWith(
  at: { readonly host: string; readonly port: number },
  options: HandshakeOptions,
): Promise<PresentedCertificate> {
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect(
      { ...at, ...connectionOptions(options), timeout: timeoutMs, ALPNProtocols: ['http/1.1'] },
      () => {
        resolve({ fingerprint: socket.getPeerCertificate().fingerprint256, trusted: socket.authorized })
        socket.destroy()
      },
    )
    socket.once('timeout', () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)))
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
  })
}

function connectionOptions({ target, roots }: HandshakeOptions): ConnectionOptions {
  return {
    ca: [...roots],
    rejectUnauthorized: false,
    // A server name must not be an address (RFC 6066, 3). Without this option, Node can check another name.
    servername: isIP(target) === 0 ? target : '',
    checkServerIdentity: (_host: string, certificate: PeerCertificate) => checkServerIdentity(target, certificate),
  }
}
