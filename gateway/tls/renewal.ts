import type { Logger } from 'pino'
import { SingleFlight } from '../../shared/async/single-flight.js'
import { BerthError, describeError } from '../../shared/errors.js'
import { steadyClock } from '../../shared/steady-clock.js'
import { factsOf } from './certificate.js'
import type { StoreLock } from './lock.js'
import { afterFailure, isEndNear, isRenewalDue, renewalPauses, type RenewalPauses } from './plan-renewal.js'
import type { TlsDocuments, TlsSettings } from './tls-settings.js'

export interface RenewalOptions {
  readonly documents: TlsDocuments
  readonly lock: StoreLock
  readonly log: Logger
  readonly timing?: { readonly checkEveryMs: number; readonly pauses: RenewalPauses }
  /** Obtains and stores a new certificate with the same settings. */
  make(settings: TlsSettings): Promise<TlsSettings>
  /** Tries again to open listeners that this gateway could not open. */
  converge(): Promise<void>
}

const everyMinute = { checkEveryMs: 60_000, pauses: renewalPauses }
const warnEveryMs = 24 * 3_600_000

/** Renews the certificate in time. Only the gateway that gets the lock renews it. */
export class Renewal {
  #timer: NodeJS.Timeout | undefined
  readonly #checking = new SingleFlight()
  #warnedMs = 0
  #stopped = false

  constructor(private readonly options: RenewalOptions) {}

  start(): void {
    const { checkEveryMs } = this.options.timing ?? everyMinute
    this.#timer = setInterval(() => void this.#checking.run(() => this.#check()), checkEveryMs).unref()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#timer)
    await this.#checking.settled()
  }

  get warnings(): readonly string[] {
    const current = this.options.documents.settings.value?.current
    if (!current) return []
    const facts = factsOf(current.chainPem)
    const ends = isEndNear(facts, steadyClock.now())
      ? [`the certificate expires at ${new Date(facts.notAfterMs).toISOString()}`]
      : []
    const attempts = this.options.documents.renewal.value
    return attempts?.fingerprint === current.fingerprint && attempts.failures > 0
      ? [...ends, `its renewal failed ${attempts.failures} times: ${attempts.error}`]
      : ends
  }

  async #check(): Promise<void> {
    try {
      await this.options.converge()
      const settings = this.#due()
      if (settings !== undefined) await this.options.lock.tryRun(() => this.#renew())
      this.#warn()
    } catch (err) {
      this.options.log.warn({ err }, 'tls: could not check whether the certificate must be renewed')
    }
  }

  /** Returns the settings if their certificate must be renewed now. */
  #due(): TlsSettings | undefined {
    const { settings, renewal } = this.options.documents
    const known = settings.value
    if (this.#stopped || !known?.enabled || !known.current || known.current.mode === 'uploaded') return undefined
    const { fingerprint, chainPem } = known.current
    const attempts = renewal.current
    const own = attempts.fingerprint === fingerprint ? attempts : { ...attempts, nextMs: 0 }
    return isRenewalDue(factsOf(chainPem), own, steadyClock.now()) ? known : undefined
  }

  /** Renews the certificate. Does nothing if another gateway has renewed it while this gateway waited for the lock. */
  async #renew(): Promise<void> {
    const { documents } = this.options
    await Promise.all([documents.settings.refresh(), documents.renewal.refresh()])
    const settings = this.#due()
    if (!settings?.current) return
    const { log } = this.options
    try {
      const { current } = await this.options.make(settings)
      log.info({ fingerprint: current?.fingerprint }, 'tls: certificate renewed')
    } catch (err) {
      // Another request has changed the certificate, or is changing it. The next check decides if a renewal is due.
      if (err instanceof BerthError && ['ssl_busy', 'ssl_changed'].includes(err.code)) return
      log.error({ err }, 'tls: the certificate could not be renewed')
      await this.#noteFailure(settings.current.fingerprint, err)
    }
  }

  async #noteFailure(fingerprint: string, error: unknown): Promise<void> {
    if (this.#stopped) return // the shutdown has aborted the attempt
    const { documents, timing } = this.options
    const retryAfterSeconds = error instanceof BerthError ? (error.retryAfterSeconds ?? 0) : 0
    const failure = { fingerprint, error: describeError(error).slice(0, 500), retryAfterSeconds }
    await documents.renewal.update((old) => afterFailure(old, failure, steadyClock.now(), timing?.pauses))
  }

  #warn(): void {
    const { warnings } = this
    if (warnings.length === 0 || steadyClock.now() - this.#warnedMs < warnEveryMs) return
    this.#warnedMs = steadyClock.now()
    this.options.log.warn({ warnings }, 'tls: the certificate has problems')
  }
}
