import { rootCertificates } from 'node:tls'
import { BerthError } from '../../../shared/errors.js'
import { OutboundClient, readText, type OutboundOrder } from '../../../shared/outbound-request.js'
import {
  acmeRateLimited,
  acmeRefused,
  acmeTimeout,
  acmeUnavailable,
  parseRetryAfter,
  problemKind,
  problemText,
  type Problem,
} from './errors.js'
import type { AccountKey } from './jws.js'

export interface AcmeServerOptions {
  /** URL of the ACME server's directory. */
  readonly directory: string
  /** PEM certificates that are trusted in addition to the usual authorities. "" adds none. */
  readonly caPem: string
  readonly signal: AbortSignal
}

/** URLs of the resources of an ACME server (RFC 8555, 7.1.1). */
export interface Directory {
  readonly newNonce: string
  readonly newAccount: string
  readonly newOrder: string
  readonly meta?: { readonly profiles?: Readonly<Record<string, unknown>> }
}

export interface AcmeReply<Body> {
  readonly body: Body
  /** URL of a new account or order. "": the answer contains no such URL. */
  readonly location: string
  readonly retryAfterSeconds: number | undefined
}

/** Signer of a request. It is identified by the URL of its account, or by its key if it has no account yet. */
export interface Signer {
  readonly key: AccountKey
  readonly accountUrl?: string
}

interface Raw {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** Number of rejected nonces in a row after which a request fails. A server is allowed to reject any nonce. */
const nonceAttempts = 10
const requestMs = 20_000
const maxReplyBytes = 1_048_576

/** An ACME server: its directory, nonces and signed requests (RFC 8555, 6). */
export class AcmeServer {
  readonly #client: OutboundClient
  #directory: Directory | undefined
  #nonce = ''

  constructor(private readonly options: AcmeServerOptions) {
    const ca = options.caPem === '' ? undefined : [...rootCertificates, options.caPem]
    const timeouts = { connectMs: requestMs, headersMs: requestMs, bodyMs: requestMs }
    this.#client = new OutboundClient({ timeouts, keepAlive: false, ...(ca && { tls: { ca } }) })
  }

  get signal(): AbortSignal {
    return this.options.signal
  }

  close(): void {
    this.#client.close()
  }

  /** URLs of the server's resources. @throws {BerthError} `acme_unavailable`, `acme_timeout` */
  async directory(): Promise<Directory> {
    if (this.#directory !== undefined) return this.#directory
    const raw = await this.#send(this.options.directory, { method: 'GET' })
    if (raw.status === 429 || raw.status >= 500) throw refusalOf(raw, parseJson(raw.text) as Problem | undefined)
    const directory = parseJson(raw.text) as Partial<Directory> | undefined
    const urls = [directory?.newNonce, directory?.newAccount, directory?.newOrder]
    if (raw.status !== 200 || !urls.every((url) => typeof url === 'string' && URL.canParse(url)))
      throw acmeUnavailable(`${this.options.directory} is not the URL of an ACME directory (HTTP status ${raw.status})`)
    return (this.#directory = directory as Directory)
  }

  /**
   * Sends a signed request. If the server rejects the nonce, the request is sent again with another nonce.
   * @param payload content; undefined: a POST-as-GET request, which only reads
   * @throws {BerthError} one of `acmeCodes`
   */
  async post<Body>(url: string, payload: object | undefined, signer: Signer): Promise<AcmeReply<Body>> {
    const who = signer.accountUrl === undefined ? { jwk: signer.key.jwk } : { kid: signer.accountUrl }
    for (let attempt = 1; ; attempt++) {
      const header = { ...who, nonce: await this.#takeNonce(), url }
      const raw = await this.#send(url, {
        method: 'POST',
        headers: { 'content-type': 'application/jose+json' },
        body: signer.key.sign(header, payload),
      })
      if (raw.status < 300) return replyOf<Body>(raw)
      const problem = parseJson(raw.text) as Problem | undefined
      if (problemKind(problem) !== 'badNonce' || attempt === nonceAttempts) throw refusalOf(raw, problem)
    }
  }

  async #takeNonce(): Promise<string> {
    if (this.#nonce === '') await this.#send((await this.directory()).newNonce, { method: 'HEAD' })
    const nonce = this.#nonce
    this.#nonce = ''
    if (nonce === '') throw acmeUnavailable('it sent no nonce')
    return nonce
  }

  async #send(url: string, order: OutboundOrder): Promise<Raw> {
    try {
      const { status, headers, body } = await this.#client.send(url, {
        ...order,
        headers: { 'user-agent': 'berth', ...order.headers },
        signal: this.options.signal,
      })
      const raw: Raw = { status, headers, text: await readText(body, maxReplyBytes) }
      const nonce = raw.headers['replay-nonce']
      if (typeof nonce === 'string' && /^[\w-]{1,512}$/.test(nonce)) this.#nonce = nonce
      return raw
    } catch (cause) {
      throw toAcmeError(cause, this.options.signal)
    }
  }
}

/** Converts an error of a request, or the abort of a pause between requests, to a BerthError. */
export function toAcmeError(cause: unknown, signal: AbortSignal): BerthError {
  if (cause instanceof BerthError) return cause
  if (signal.aborted) return acmeTimeout(cause)
  const { code, message } = cause as NodeJS.ErrnoException
  return acmeUnavailable(code ?? message, { cause })
}

function replyOf<Body>({ headers, text }: Raw): AcmeReply<Body> {
  const location = headers['location']
  return {
    body: (parseJson(text) ?? text) as Body,
    location: typeof location === 'string' ? location : '',
    retryAfterSeconds: parseRetryAfter(headers['retry-after']),
  }
}

function refusalOf({ status, headers }: Raw, problem: Problem | undefined): BerthError {
  const retryAfterSeconds = parseRetryAfter(headers['retry-after'])
  if (status === 429 || problemKind(problem) === 'rateLimited') return acmeRateLimited(problem, retryAfterSeconds)
  if (status >= 500)
    return acmeUnavailable(`it answered with status ${status}: ${problemText(problem)}`, {
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    })
  return acmeRefused(problem)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
