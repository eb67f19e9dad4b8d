import { setTimeout as delay } from 'node:timers/promises'
import { conflict } from '../../shared/errors.js'
import { AccountKey } from './acme/jws.js'
import { obtainCertificate, type Challenge, type ChallengeMethod } from './acme/obtain.js'
import { AcmeServer } from './acme/server.js'
import type { KeyedChain } from './certificate.js'
import type { Listeners } from './listeners.js'
import type { StoreLock } from './lock.js'
import type { TlsDocuments } from './tls-settings.js'

export interface AcmeOptions {
  /** URL of the authority's directory. */
  readonly directory: string
  /** PEM certificates to trust for the authority's server in addition to the usual authorities. "" adds none. */
  readonly caPem: string
  /** Time limit of an order in ms. Default and maximum: 90 s. */
  readonly orderMs?: number
}

export interface IssuerOptions {
  readonly acme: AcmeOptions
  readonly documents: TlsDocuments
  readonly listeners: Listeners
  readonly lock: StoreLock
  /** Methods with which the authority can reach this installation. */
  readonly methods: readonly ChallengeMethod[]
}

/** Time limit in ms of an order to an ACME authority. The lock and the challenge expire later. */
const orderMs = 90_000
export const orderLeaseMs = orderMs + 30_000

/** Pause in ms in which all gateways get the challenge. The authority asks only once, and can ask any of them. */
const othersLearnMs = 500

/** Obtains certificates from an authority, only one at a time among all gateways. */
export class Issuer {
  readonly #closing = new AbortController()

  constructor(private readonly options: IssuerOptions) {}

  /** Aborts the order that is in progress, because the gateway stops. */
  close(): void {
    this.#closing.abort()
  }

  /** Obtains a certificate. @throws {BerthError} `ssl_busy`, one of `acmeCodes`, `port_conflict`, `port_denied` */
  async obtain(target: string, email: string): Promise<KeyedChain> {
    const done = await this.options.lock.tryRun(() => this.#order(target, email))
    if (done === undefined)
      throw conflict('ssl_busy', 'a certificate is already being obtained: wait up to two minutes')
    return done.result
  }

  async #order(target: string, email: string): Promise<KeyedChain> {
    const { acme, documents, methods } = this.options
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(acme.orderMs ?? orderMs)])
    const server = new AcmeServer({ ...acme, signal })
    try {
      const pem = await documents.accountKey(acme.directory, () => AccountKey.create().toPem())
      const account = AccountKey.fromPem(pem)
      const present = (challenge: Challenge) => this.#present(challenge)
      return await obtainCertificate(server, { target, email, account, methods, present })
    } finally {
      server.close()
      await this.#takeBack().catch(() => undefined) // after a failure, the challenge expires by itself
    }
  }

  /** Makes the answer available at all gateways, because the authority can ask any of them. */
  async #present(challenge: Challenge): Promise<void> {
    const { documents, listeners } = this.options
    const untilMs = Date.now() + orderLeaseMs
    await documents.challenge.update(() => ({ ...challenge, untilMs }))
    await listeners.converge()
    listeners.checkAnswers(challenge.method)
    await delay(othersLearnMs)
  }

  async #takeBack(): Promise<void> {
    if (!this.options.documents.challenge.value) return
    await this.options.documents.challenge.update(() => null)
    await this.options.listeners.converge()
  }
}
