import { randomUUID, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { rootCertificates } from 'node:tls'
import type { Logger } from 'pino'
import { BerthError, conflict, describeError } from '../../shared/errors.js'
import type { ServerHandlers } from '../http/server.js'
import type { ListenAddress, ListeningSockets } from '../sockets/listening-sockets.js'
import type { Store } from '../store/store.js'
import { Mutex } from '../../shared/async/mutex.js'
import type { ChallengeMethod } from './acme/obtain.js'
import { covers, factsOf, parseChain, type KeyedChain } from './certificate.js'
import { Challenges } from './challenges.js'
import { checkStored, checkUpload } from './check-upload.js'
import { handshakeWith, tryHandshake } from './handshake.js'
import { Issuer, orderLeaseMs, type AcmeOptions } from './issue.js'
import { makeSelfSigned } from './keys.js'
import { Listeners } from './listeners.js'
import { StoreLock } from './lock.js'
import { planTlsChange, type TlsPlan, type WantedTls } from './plan-change.js'
import type { RenewalPauses, Validity } from './plan-renewal.js'
import { Renewal } from './renewal.js'
import { TlsDocuments, type StoredCertificate, type TlsSettings } from './tls-settings.js'

export interface TlsOptions {
  readonly store: Store
  /** 32 secret bytes, the same in all gateways on the store. */
  readonly secret: Buffer
  /** Address for TLS. `undefined`: this gateway does not offer TLS. */
  readonly listen: ListenAddress | undefined
  /** Address that clients reach as port 80. `undefined`: this gateway does not listen there. */
  readonly httpListen: ListenAddress | undefined
  readonly acme: AcmeOptions
  /** True if remote clients can also reach the API without TLS. */
  readonly plainIsPublic: boolean
  readonly log: Logger
  /** Keeps the listening sockets open while the service restarts. If absent, they close when the process ends. */
  readonly sockets?: ListeningSockets | undefined
  /** Trusted root certificates in PEM. Default: the root certificates of Mozilla. */
  readonly roots?: readonly string[]
  /** Finds out which certificate a listener presents. Default: connects to the listener. */
  readonly probe?: typeof handshakeWith
  /** Times of the renewal. Default: a check every minute, and `renewalPauses`. */
  readonly timing?: { readonly checkEveryMs: number; readonly pauses: RenewalPauses }
}

const maxHstsSeconds = 86_400

/** TLS of this gateway, with the settings that all gateways share. Create the object before `store.start()`. */
export class Tls {
  readonly documents: TlsDocuments
  readonly #listeners: Listeners
  readonly #issuer: Issuer
  readonly #renewal: Renewal
  readonly #rootPems: readonly string[]
  readonly #installs = new Mutex()
  #roots: readonly X509Certificate[] | undefined
  #leaf: X509Certificate | undefined

  constructor(private readonly options: TlsOptions) {
    const { store, secret, listen, httpListen, acme, log, sockets } = options
    const documents = new TlsDocuments(store, secret, log)
    this.documents = documents
    this.#rootPems = options.roots ?? rootCertificates
    const challenges = new Challenges(documents)
    this.#listeners = new Listeners({
      documents,
      challenges,
      listen,
      httpListen,
      log,
      sockets,
      redirectHost: (host) => this.#redirectHost(host),
    })
    const methods: ChallengeMethod[] = [
      ...(httpListen ? (['http-01'] as const) : []),
      ...(listen ? (['tls-alpn-01'] as const) : []),
    ]
    const lock = new StoreLock(store, 'tls:lock', orderLeaseMs)
    this.#issuer = new Issuer({ acme, documents, listeners: this.#listeners, lock, methods })
    this.#renewal = new Renewal({
      documents,
      lock: new StoreLock(store, 'tls:renewal-lock', orderLeaseMs),
      log,
      ...(options.timing && { timing: options.timing }),
      make: (settings) => this.#renewed(settings),
      converge: () => this.#listeners.converge(),
    })
    documents.settings.onChange((settings) => {
      this.#leaf = settings.current ? parseChain(settings.current.chainPem)[0] : undefined
      void this.#listeners.converge()
    })
    documents.challenge.onChange(() => void this.#listeners.converge())
  }

  /** Opens listeners when the settings require them, and renews the certificate in time. */
  async start(served: ServerHandlers): Promise<void> {
    await this.#listeners.start(served)
    this.#renewal.start()
  }

  /** Asks clients to change to new connections, see `Connections.drain`. The listeners still accept connections. */
  drain(lingerMs: number): Promise<void> {
    return this.#listeners.drain(lingerMs)
  }

  async close(): Promise<void> {
    this.#issuer.close()
    await this.#renewal.stop()
    await this.#listeners.close()
  }

  /** Address and port at which this gateway listens for TLS. `undefined`: it does not listen for TLS. */
  get address(): ListenAddress | undefined {
    return this.#listeners.tlsAddress
  }

  /** Validity of the certificate in use. `undefined`: no certificate is in use. */
  get validity(): Validity | undefined {
    if (this.documents.settings.value?.enabled !== true || this.#leaf === undefined) return undefined
    return { notBeforeMs: Date.parse(this.#leaf.validFrom), notAfterMs: Date.parse(this.#leaf.validTo) }
  }

  get warnings(): readonly string[] {
    return [...this.#listeners.problems, ...this.#renewal.warnings]
  }

  /**
   * Value of Strict-Transport-Security for answers over TLS. With this header, browsers reject untrusted certificates
   * and unencrypted connections at all ports of the name. `undefined`: the header could lock users out.
   */
  get hsts(): string | undefined {
    const current = this.documents.settings.value?.current
    if (!current?.trusted || this.options.plainIsPublic || isIP(current.target) !== 0) return undefined
    const left = Math.floor((Date.parse(this.#leaf?.validTo ?? '') - Date.now()) / 1000)
    return left > 0 ? `max-age=${Math.min(left, maxHstsSeconds)}` : undefined
  }

  /**
   * Changes the settings. Checks and tests the certificate, and then stores it, which activates it at all gateways. A
   * change that fails at this gateway is rolled back.
   * @param detectedHost name or address at which the request reached the gateway
   * @throws {BerthError} errors of the route `updateSsl`; nothing is changed in this case
   */
  async change(wanted: WantedTls, detectedHost: string): Promise<TlsSettings> {
    const old = this.documents.settings.current
    const validity = ({ chainPem }: StoredCertificate) => factsOf(chainPem)
    const plan = planTlsChange(wanted, { old, detectedHost, nowMs: Date.now(), validity })
    const certificate = await this.#certificateFor(plan)
    return this.#installs.run(() => this.#install(old, plan, certificate))
  }

  /** Returns the certificate that a plan requires. @returns undefined if TLS is off */
  async #certificateFor({ certificate, ...plan }: TlsPlan): Promise<StoredCertificate | undefined> {
    switch (certificate.from) {
      case 'none':
        return undefined
      case 'stored':
        return this.#tried(this.#recheck(certificate.stored, plan.target), plan)
      case 'upload':
        return this.#tried(this.#checked(certificate, plan.target), plan)
      case 'self_signed':
      case 'letsencrypt':
        return this.#tried(await this.#made(certificate.from, plan), plan)
    }
  }

  async #made(
    mode: 'self_signed' | 'letsencrypt',
    { target, email }: Pick<TlsPlan, 'target' | 'email'>,
  ): Promise<KeyedChain> {
    if (mode === 'self_signed') return makeSelfSigned(target)
    const material = await this.#issuer.obtain(target, email)
    checkStored(material.chainPem, { target, nowMs: Date.now() })
    return material
  }

  #checked(upload: { certPem: string; keyPem: string }, target: string): KeyedChain {
    this.#roots ??= this.#rootPems.map((pem) => new X509Certificate(pem))
    return checkUpload(upload, { target, nowMs: Date.now(), roots: this.#roots })
  }

  /** Checks a stored certificate again, because it has perhaps expired, or is not valid for the new `target`. */
  #recheck(stored: StoredCertificate, target: string): KeyedChain {
    checkStored(stored.chainPem, { target, nowMs: Date.now() })
    return this.documents.opened(stored)
  }

  async #tried(material: KeyedChain, { mode, target }: Pick<TlsPlan, 'mode' | 'target'>): Promise<StoredCertificate> {
    const { trusted } = await tryHandshake(material, { target, roots: this.#rootPems })
    return this.documents.sealed(material, { mode, target, trusted })
  }

  async #install(
    old: TlsSettings,
    { certificate: _, ...plan }: TlsPlan,
    certificate: StoredCertificate | undefined,
  ): Promise<TlsSettings> {
    const next = { ...old, ...plan, ...replaced(old, certificate), change: randomUUID() }
    try {
      if (certificate !== undefined) await this.#listeners.reserve(this.documents.opened(certificate))
      await this.#replace(old, next)
    } finally {
      await this.#listeners.converge()
    }
    if (certificate !== undefined) await this.#probe(old, next, certificate)
    return next
  }

  async #replace(old: TlsSettings, next: TlsSettings): Promise<void> {
    await this.documents.settings.update((found) => {
      if (found.change === old.change) return next
      throw conflict('ssl_changed', 'the TLS settings were changed in the meantime: read them again')
    })
  }

  /** Checks that the listener presents the new certificate. If it does not, restores the previous settings. */
  async #probe(old: TlsSettings, next: TlsSettings, { fingerprint }: StoredCertificate): Promise<void> {
    try {
      const at = this.#listeners.tlsAddress
      if (at === undefined) throw new Error('the gateway does not listen for TLS')
      const seen = await (this.options.probe ?? handshakeWith)(at, {
        target: next.target,
        roots: this.#rootPems,
      })
      if (seen.fingerprint !== fingerprint)
        throw new Error('the HTTPS port of the gateway presents another certificate')
    } catch (cause) {
      await this.#replace(next, { ...old, change: randomUUID() })
      await this.#listeners.converge()
      const message = `the HTTPS port of the gateway does not present the new certificate: ${describeError(cause)}`
      throw new BerthError('conflict', 'ssl_probe_failed', `${message}; the earlier settings are in effect`)
    }
  }

  /** Replaces the current certificate without other changes of the settings. */
  async #renewed(settings: TlsSettings): Promise<TlsSettings> {
    const { target } = settings
    const mode = settings.mode === 'letsencrypt' ? 'letsencrypt' : 'self_signed'
    const material = await this.#made(mode, settings)
    const certificate = await this.#tried(material, { mode, target })
    const next = { ...settings, ...replaced(settings, certificate), change: randomUUID() }
    await this.#replace(settings, next)
    return next
  }

  /** Host for redirects: the requested host if the certificate is valid for it, or else the target in the settings. */
  #redirectHost(host: string): ListenAddress | undefined {
    const { listen, tlsAddress } = { listen: this.options.listen, tlsAddress: this.#listeners.tlsAddress }
    const settings = this.documents.settings.value
    if (!settings?.enabled || listen === undefined || tlsAddress === undefined) return undefined
    const bare = host.toLowerCase().replace(/^\[(.+)\]$/, '$1')
    const isCovered = /^[a-z0-9.:-]{1,253}$/.test(bare) && this.#leaf !== undefined && covers(this.#leaf, bare)
    return { host: isCovered ? bare : settings.target, port: tlsAddress.port }
  }
}

/** Returns settings with a new current certificate. The old certificate becomes `previous`, unless both are equal. */
function replaced(
  old: TlsSettings,
  certificate: StoredCertificate | undefined,
): Partial<Pick<TlsSettings, 'current' | 'previous'>> {
  if (certificate === undefined) return {}
  const isSame = old.current?.fingerprint === certificate.fingerprint
  return { current: certificate, previous: isSame ? old.previous : old.current }
}
