import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { Logger } from 'pino'
import type { Connections } from '../http/connections.js'
import { defaultTimeouts, handlersOf, httpOptions, serveRequests, type ServerHandlers } from '../http/server.js'
import type { ListenAddress, ListeningSockets } from '../sockets/listening-sockets.js'
import type { KeyedChain } from './certificate.js'
import { acmeProtocol, type Challenges } from './challenges.js'
import { readProtocols } from './client-hello.js'
import { tlsVersions } from './handshake.js'
import { listenWide } from './listen.js'

export interface TlsListenerOptions {
  readonly served: ServerHandlers
  readonly listen: ListenAddress
  readonly challenges: Challenges
  readonly log: Logger
  /** Keeps the listening socket open while the service restarts. If absent, the socket closes when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** True if the application is served over TLS. False: only challenges are answered. */
  isOn(): boolean
}

/** Serves the application over TLS. The certificate can be replaced while connections continue. */
export class TlsListener {
  readonly #server: Server
  /** Connections of the listener, which are closed when the gateway stops. */
  readonly connections: Pick<Connections, 'drain' | 'close'>
  #chainPem = ''

  private constructor(private readonly options: TlsListenerOptions) {
    const handlers = handlersOf(options.served)
    this.#server = createServer({ ...httpOptions(defaultTimeouts, handlers), ...tlsVersions })
    this.connections = serveRequests(this.#server, handlers, defaultTimeouts)
    this.#server.on('tlsClientError', ({ message }) =>
      options.log.debug({ reason: message }, 'tls: a TLS handshake with a client failed'),
    )
    this.#peekFirst()
  }

  /** @throws {BerthError} `port_conflict`, `port_denied` */
  static async open(options: TlsListenerOptions, material: KeyedChain): Promise<TlsListener> {
    const listener = new TlsListener(options)
    listener.use(material)
    await listenWide(listener.#server, options)
    listener.#server.on('error', (err) => options.log.error({ err }, 'the TLS listener failed'))
    options.log.info({ address: listener.#server.address() }, 'the gateway listens for HTTPS requests')
    return listener
  }

  /**
   * Uses this certificate for new connections. Existing connections keep the previous certificate.
   * @throws the error of OpenSSL; the previous certificate then stays in use
   */
  use(material: KeyedChain): void {
    if (material.chainPem === this.#chainPem) return
    this.#server.setSecureContext({ cert: material.chainPem, key: material.keyPem, ...tlsVersions })
    this.#chainPem = material.chainPem
  }

  /** Address at which clients on the gateway's server reach the listener. */
  get reachedAt(): ListenAddress {
    const { address, port } = this.#server.address() as AddressInfo
    const loopbacks: Record<string, string> = { '::': '::1', '0.0.0.0': '127.0.0.1' }
    return { host: loopbacks[address] ?? address, port }
  }

  /**
   * While a challenge of a certificate authority is open, the gateway must answer the authority with a special
   * certificate. The first bytes of a connection show if the authority has opened it. These bytes are read here,
   * because the TLS library would report them after it has chosen a certificate.
   */
  #peekFirst(): void {
    const server = this.#server
    const [accept] = server.listeners('connection') as [(socket: Socket) => void]
    const pass = (socket: Socket): void => void (this.options.isOn() ? accept.call(server, socket) : socket.destroy())
    server.off('connection', accept)
    server.on('connection', (socket: Socket) => {
      const answer = this.options.challenges.certificate()
      if (answer === undefined) return pass(socket)
      peek(socket)
        .then(async (isValidation) => (isValidation ? answerValidation(socket, await answer) : pass(socket)))
        .catch(() => socket.destroy())
    })
  }
}

/**
 * True if a certificate authority has opened this connection to validate the name. Puts the read bytes back, so that
 * the TLS library gets them. The idle timeout of the socket also limits this wait.
 */
function peek(socket: Socket): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const read = (): void => {
      for (let chunk; (chunk = socket.read() as Buffer | null) !== null;) chunks.push(chunk)
      const bytes = Buffer.concat(chunks)
      const protocols = readProtocols(bytes)
      if (protocols === 'more') return
      socket.off('readable', read)
      socket.off('close', reject)
      socket.unshift(bytes)
      resolve(protocols.includes(acmeProtocol))
    }
    socket.on('readable', read)
    socket.once('close', reject)
  })
}

/** Presents the certificate and closes the connection. A validation needs nothing else (RFC 8737, 3). */
function answerValidation(socket: Socket, { chainPem, keyPem }: KeyedChain): void {
  const server = createTlsServer({
    cert: chainPem,
    key: keyPem,
    ALPNProtocols: [acmeProtocol],
    ...tlsVersions,
  })
  server.on('secureConnection', (secure) => secure.end())
  server.on('tlsClientError', () => socket.destroy())
  server.emit('connection', socket)
}
