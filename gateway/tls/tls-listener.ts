import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import type { Logger } from 'pino'
import {
  closeServer,
  defaultTimeouts,
  handlersOf,
  httpOptions,
  listenOn,
  serveRequests,
  type ListenAddress,
  type Served,
} from '../http/server.js'
import type { KeyedChain } from './certificate.js'
import { acmeProtocol, type Challenges } from './challenges.js'
import { readProtocols } from './client-hello.js'
import { tlsVersions } from './handshake.js'
import { listenError, listenWide } from './listen.js'

export interface TlsListenerOptions {
  readonly served: Served
  readonly listen: ListenAddress
  readonly challenges: Challenges
  readonly log: Logger
  /** True if the application is served; otherwise only challenges are answered. */
  isOn(): boolean
}

/** The application over TLS, with a certificate that can be replaced while connections continue. */
export class TlsListener {
  readonly #server: Server
  #chainPem = ''

  private constructor(private readonly options: TlsListenerOptions) {
    const handlers = handlersOf(options.served)
    this.#server = createServer({ ...httpOptions(defaultTimeouts, handlers), ...tlsVersions })
    serveRequests(this.#server, handlers, defaultTimeouts)
    this.#server.on('tlsClientError', ({ message }) => options.log.debug({ reason: message }, 'tls: handshake failed'))
    this.#peekFirst()
  }

  /** @throws {BerthError} `port_conflict`, `port_denied` */
  static async open(options: TlsListenerOptions, material: KeyedChain): Promise<TlsListener> {
    const listener = new TlsListener(options)
    listener.use(material)
    await listenWide(options.listen, (listen) => listenOn(listener.#server, listen)).catch((cause: unknown) => {
      throw listenError(options.listen, cause)
    })
    listener.#server.on('error', (err) => options.log.error({ err }, 'tls listener'))
    options.log.info({ address: listener.#server.address() }, 'https listening')
    return listener
  }

  /**
   * Uses this certificate for new connections; existing ones continue with theirs.
   * @throws the error of OpenSSL; the former certificate stays
   */
  use(material: KeyedChain): void {
    if (material.chainPem === this.#chainPem) return
    this.#server.setSecureContext({ cert: material.chainPem, key: material.keyPem, ...tlsVersions })
    this.#chainPem = material.chainPem
  }

  /** Address at which a client on this machine reaches it. */
  get reachedAt(): ListenAddress {
    const { address, port } = this.#server.address() as AddressInfo
    const loopbacks: Record<string, string> = { '::': '::1', '0.0.0.0': '127.0.0.1' }
    return { host: loopbacks[address] ?? address, port }
  }

  close(graceMs: number): Promise<void> {
    return closeServer(this.#server, graceMs)
  }

  /**
   * Reads the first bytes before the TLS library while a challenge is open: the offered protocols identify a
   * validation, and the library reports them too late to choose another certificate.
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
 * True if it is a validation; the bytes stay in the socket. Its idle time is bounded like that of all other sockets.
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

/** Presents the certificate, and ends: no content is exchanged (RFC 8737, 3). */
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
