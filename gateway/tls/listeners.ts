import { createSecureContext } from 'node:tls'
import type { Logger } from 'pino'
import { Mutex } from '../../shared/async/mutex.js'
import { BerthError, describeError } from '../../shared/errors.js'
import type { ServerHandlers } from '../http/server.js'
import type { ListenAddress } from '../sockets/listening-sockets.js'
import type { ChallengeMethod } from './acme/obtain.js'
import type { KeyedChain } from './certificate.js'
import type { Challenges } from './challenges.js'
import { tlsVersions } from './handshake.js'
import { HttpListener, type HttpListenerOptions } from './http-listener.js'
import { makeSelfSigned } from './keys.js'
import type { TlsDocuments, TlsSettings } from './tls-settings.js'
import { TlsListener } from './tls-listener.js'

export interface ListenersOptions extends Pick<HttpListenerOptions, 'redirectHost' | 'sockets'> {
  readonly documents: TlsDocuments
  readonly challenges: Challenges
  /** Address for TLS. `undefined`: this gateway does not offer TLS. */
  readonly listen: ListenAddress | undefined
  /** Address for challenges and redirects. `undefined`: this gateway does not offer them. */
  readonly httpListen: ListenAddress | undefined
  readonly log: Logger
}

/** Time limit in ms for requests in progress when a listener is closed. */
const graceMs = 10_000

type Part = 'tls' | 'http'

/** The listeners of this gateway. They follow the settings that all gateways share. */
export class Listeners {
  #served: ServerHandlers | undefined
  #tls: TlsListener | undefined
  #http: HttpListener | undefined
  readonly #mutex = new Mutex()
  #reserved = false
  #closed = false
  readonly #problems = new Map<Part, string>()

  constructor(private readonly options: ListenersOptions) {}

  start(served: ServerHandlers): Promise<void> {
    this.#served = served
    return this.converge()
  }

  /** Address at which clients on the gateway's machine reach TLS. `undefined`: this gateway does not listen for TLS. */
  get tlsAddress(): ListenAddress | undefined {
    return this.#tls?.reachedAt
  }

  /** Reasons why required listeners could not be opened. */
  get problems(): readonly string[] {
    return [...this.#problems.values()]
  }

  /** Opens, closes and updates the listeners as the settings require. Failures are listed in `problems` and retried. */
  converge(): Promise<void> {
    return this.#mutex.run(async () => {
      const settings = this.options.documents.settings.value
      if (settings === undefined || this.#served === undefined || this.#closed) return
      this.#reserved = false
      await this.#note('tls', () => this.#convergeTls(settings))
      await this.#note('http', () => this.#convergeHttp(settings))
    })
  }

  /**
   * Opens the TLS listener, if it is not open yet, with a new certificate that is not in the settings yet. If the
   * settings do not turn on TLS, the next `converge` closes the listener again.
   * @throws {BerthError} `tls_not_configured`, `port_conflict`, `port_denied`
   */
  reserve(material: KeyedChain): Promise<void> {
    return this.#mutex.run(async () => {
      if (this.options.listen === undefined)
        throw new BerthError(
          'conflict',
          'tls_not_configured',
          'TLS is not available: tls_listen is empty in gateway.yaml',
        )
      this.#reserved = true
      if (this.#tls === undefined) this.#tls = await this.#openTls(material)
    })
  }

  /** Checks that this gateway can answer challenges. @throws {BerthError} `port_conflict` if it cannot */
  checkAnswers(method: ChallengeMethod): void {
    const part = method === 'http-01' ? 'http' : 'tls'
    if ((part === 'http' ? this.#http : this.#tls) !== undefined) return
    throw new BerthError('conflict', 'port_conflict', this.#problems.get(part) ?? `the gateway has no ${part} listener`)
  }

  /** Asks clients to change to new connections, see `Connections.drain`. The listeners still accept connections. */
  async drain(lingerMs: number): Promise<void> {
    await this.#mutex.run(() => Promise.all(this.#open.map(({ connections }) => connections.drain(lingerMs))))
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#mutex.run(() => Promise.all(this.#open.map(({ connections }) => connections.close(graceMs))))
  }

  get #open(): (TlsListener | HttpListener)[] {
    return [this.#tls, this.#http].filter((listener) => listener !== undefined)
  }

  async #convergeTls(settings: TlsSettings): Promise<void> {
    const { listen, challenges } = this.options
    const isOpen = challenges.current('tls-alpn-01') !== undefined
    if (listen === undefined) return
    if (!(settings.enabled || isOpen)) {
      void this.#tls?.connections.close(graceMs)
      this.#tls = undefined
      return this.options.sockets?.release(listen)
    }
    const material = settings.enabled ? this.#usable(settings) : undefined
    if (this.#tls === undefined) this.#tls = await this.#openTls(material ?? (await makeSelfSigned('berth')))
    else if (material !== undefined) this.#tls.use(material)
  }

  /** Returns the current certificate, or the previous certificate if the current one cannot be used. */
  #usable({ current, previous }: TlsSettings): KeyedChain | undefined {
    for (const stored of [current, previous]) {
      if (stored === null) continue
      try {
        const material = this.options.documents.opened(stored)
        createSecureContext({ cert: material.chainPem, key: material.keyPem, ...tlsVersions })
        return material
      } catch (err) {
        this.options.log.error({ err, fingerprint: stored.fingerprint }, 'tls: a stored certificate cannot be used')
      }
    }
    return undefined
  }

  #openTls(material: KeyedChain): Promise<TlsListener> {
    const { listen, challenges, log, documents, sockets } = this.options
    if (this.#served === undefined || listen === undefined) throw new Error('the TLS listeners are not started')
    const isOn = () => this.#reserved || documents.settings.value?.enabled === true
    return TlsListener.open({ served: this.#served, listen, challenges, log, sockets, isOn }, material)
  }

  async #convergeHttp(settings: TlsSettings): Promise<void> {
    const { httpListen: listen, challenges } = this.options
    const isWanted = settings.enabled || challenges.current('http-01') !== undefined
    if (listen === undefined) return
    if (!isWanted) {
      void this.#http?.connections.close(graceMs)
      this.#http = undefined
      await this.options.sockets?.release(listen)
    } else this.#http ??= await HttpListener.open({ ...this.options, listen })
  }

  async #note(part: Part, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#problems.delete(part)
    } catch (err) {
      const text = describeError(err)
      if (this.#problems.get(part) !== text) this.options.log.error({ err }, `the ${part} listener could not be opened`)
      this.#problems.set(part, text)
    }
  }
}
