import { request as requestHttp, type IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { CliError, exitCodes, RefusedError } from '../errors.js'
import { parseRefusal } from './refusal.js'

/** Address of a gateway, and the key for it. */
export interface Connection {
  /** Without a slash at its end, such as `https://panel.example.com`. */
  readonly url: string
  readonly key: string
  /** Certificates in PEM that are trusted in place of the system's certificates. */
  readonly ca?: string
}

export interface ClientRequest {
  readonly method: string
  /** Path below `/api/v1`, with its parameters encoded. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** ETag that the object must still have. */
  readonly ifMatch?: string | undefined
  /** Idempotency key: a request with the same key takes effect only once. Default: a random key. */
  readonly idempotencyKey?: string
}

/** The usual form of answers. Some answers have further fields. */
export interface Envelope {
  readonly message?: string
  readonly data?: unknown
  readonly [field: string]: unknown
}

export interface Answer {
  readonly status: number
  readonly body: Envelope
  readonly etag?: string | undefined
}

const connectTimeoutMs = 30_000
/** Time in ms within which the gateway must send something. It answers some requests only after two minutes. */
const answerTimeoutMs = 150_000
const maxRetries = 5
const maxRetryDelayMs = 30_000

export class Client {
  constructor(readonly connection: Connection) {}

  /** Sends a request and parses the answer. @throws {CliError} if the gateway refuses or cannot be reached */
  async send(request: ClientRequest): Promise<Answer> {
    const { status, bytes, etag } = await this.read(request)
    return { status, body: parseEnvelope(bytes.toString(), this.connection.url), etag }
  }

  /** Sends a request and returns the answer as it is. @throws {CliError} as `send` */
  async read(request: ClientRequest): Promise<{ status: number; bytes: Buffer; etag: string | undefined }> {
    const response = await this.open(request)
    const bytes = await readAll(response, this.connection.url)
    return { status: response.statusCode ?? 0, bytes, etag: response.headers.etag }
  }

  /**
   * Sends a request and returns the answer before its body was received. Requests that exceed the rate limit are
   * repeated. @throws {CliError} as `send`
   */
  async open(request: ClientRequest): Promise<IncomingMessage> {
    const { idempotencyKey = randomUUID() } = request
    for (let attempt = 1; ; attempt++) {
      const response = await this.#exchange(request, idempotencyKey)
      const status = response.statusCode ?? 0
      if (status >= 200 && status < 300) return response
      const error = await refusalOf(response, this.connection.url)
      const seconds = Number(response.headers['retry-after'] ?? 1)
      if (status !== 429 || attempt > maxRetries || !(seconds * 1000 <= maxRetryDelayMs)) throw error
      await delay(seconds * 1000)
    }
  }

  #exchange(
    { method, path, query = {}, body, ifMatch }: ClientRequest,
    idempotencyKey: string,
  ): Promise<IncomingMessage> {
    const { url, key, ca } = this.connection
    const target = new URL(`${url}/api/v1${path}`)
    for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value)
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      'x-api-key': key,
      accept: '*/*',
      ...(ifMatch !== undefined && { 'if-match': ifMatch }),
      ...(method === 'POST' && { 'idempotency-key': idempotencyKey }),
      ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    }
    const send = target.protocol === 'https:' ? requestHttps : requestHttp
    return new Promise((resolve, reject) => {
      const sent = send(target, { method, headers, ...(ca && { ca }) }, resolve)
      limitSilence(sent, url)
      sent.once('error', (cause: NodeJS.ErrnoException) => reject(unreachable(url, cause)))
      sent.end(text)
    })
  }
}

type SentRequest = ReturnType<typeof requestHttp>

/** Ends a request whose connection or answer takes too long. */
function limitSilence(sent: SentRequest, url: string): void {
  const expire = (): void => void sent.destroy(new CliError(exitCodes.unreachable, `${url} does not answer`))
  const timer = setTimeout(expire, connectTimeoutMs)
  sent.once('socket', (socket) => {
    const connected = (): void => clearTimeout(timer)
    if (sent.reusedSocket) return connected()
    socket.once(sent.protocol === 'https:' ? 'secureConnect' : 'connect', connected)
  })
  sent.once('close', () => clearTimeout(timer))
  sent.setTimeout(answerTimeoutMs, expire)
  sent.once('response', () => sent.setTimeout(0))
}

async function readAll(response: IncomingMessage, url: string): Promise<Buffer> {
  const parts: Buffer[] = []
  try {
    for await (const part of response) parts.push(part as Buffer)
  } catch (cause) {
    throw unreachable(url, cause as NodeJS.ErrnoException)
  }
  return Buffer.concat(parts)
}

async function refusalOf(response: IncomingMessage, url: string): Promise<CliError> {
  const status = response.statusCode ?? 0
  const text = (await readAll(response, url)).toString()
  if (status >= 300 && status < 400) {
    const target = response.headers.location ?? 'another address'
    return new CliError(exitCodes.failed, `${url} redirects to ${target}`, `log in there: berth login ${target}`)
  }
  return new RefusedError(status, parseRefusal(status, text))
}

function parseEnvelope(text: string, url: string): Envelope {
  try {
    return JSON.parse(text) as Envelope
  } catch (cause) {
    throw new CliError(exitCodes.failed, `${url} does not answer like a gateway of Berth: ${(cause as Error).message}`)
  }
}

const certificateCodes = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/

function unreachable(url: string, cause: NodeJS.ErrnoException | CliError): CliError {
  if (cause instanceof CliError) return cause
  const reason = cause.code === 'ECONNREFUSED' ? 'the connection was refused' : cause.message
  const hint = certificateCodes.test(cause.code ?? '')
    ? 'trust a certificate of your own with: berth login URL --ca-file FILE'
    : 'check that the gateway runs and that the URL is right: berth context list'
  return new CliError(exitCodes.unreachable, `cannot reach ${url}: ${reason}`, hint)
}
