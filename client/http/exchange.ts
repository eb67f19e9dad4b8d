import type { ClientRequest as SentRequest, IncomingMessage } from 'node:http'
import type { ClientRequest, Connection, OpenAnswer } from './connection.js'
import { UnreachableError } from './errors.js'
import { describeFailure } from './plan-failure.js'

/** Time limits of a request in ms. */
export interface TimeLimits {
  /** Time to establish the connection. */
  readonly connectMs: number
  /** Time until the gateway sends something. It answers some requests only after two minutes. */
  readonly answerMs: number
  /** Longest time without traffic during an upload, before the gateway answers. */
  readonly uploadMs: number
}

/** A host can begin to receive an upload after 10 minutes, and can then unpack for 30 minutes until it reads more. */
export const defaultLimits: TimeLimits = { connectMs: 30_000, answerMs: 150_000, uploadMs: 45 * 60_000 }

export interface ExchangeOptions {
  readonly idempotencyKey: string
  /** Longest time in ms without a new part of the body. Default: `answerMs` of the limits. */
  readonly maxSilenceMs?: number | undefined
  readonly limits?: TimeLimits
}

/** Sends a request once. @throws {UnreachableError} if there is no answer; the reason of the signal if it is aborted */
export function exchange(
  connection: Connection,
  request: ClientRequest,
  { idempotencyKey, limits = defaultLimits, maxSilenceMs = limits.answerMs }: ExchangeOptions,
): Promise<OpenAnswer> {
  const { url, key, ca } = connection
  const { method, body, ifMatch, signal, upload } = request
  const text = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    'x-api-key': key,
    accept: '*/*',
    ...(ifMatch !== undefined && { 'if-match': ifMatch }),
    ...(method === 'POST' && { 'idempotency-key': idempotencyKey }),
    ...(upload && { 'content-type': upload.type }),
    ...(upload?.bytes !== undefined && { 'content-length': upload.bytes }),
    ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  }
  const target = targetOf(url, request)
  const send = requestFunction(target)
  return new Promise((resolve, reject) => {
    const sent = send(target, { method, headers, ...(ca && { ca }), ...(signal && { signal }) }, (response) => {
      sent.setTimeout(maxSilenceMs)
      resolve(openAnswer(response, url, signal))
    })
    const connected = limitSilence(sent, url, upload ? { ...limits, answerMs: limits.uploadMs } : limits)
    sent.once('error', (cause: NodeJS.ErrnoException) =>
      reject(signal?.aborted ? (signal.reason as Error) : unreachable(url, cause, connected())),
    )
    // Keep-alives detect a lost gateway, which the long limit of uploads would not.
    if (upload) sent.setSocketKeepAlive(true, 30_000)
    if (upload) sendParts(sent, upload.parts)
    else sent.end(text)
  })
}

/** Sends a body as fast as the gateway reads it. An early answer, such as a refusal, ends the transfer. */
function sendParts(sent: SentRequest, parts: AsyncIterable<Uint8Array>): void {
  const { Readable } = process.getBuiltinModule('node:stream')
  const body = Readable.from(parts, { objectMode: false })
  body.once('error', (error) => sent.destroy(error))
  sent.once('response', () => body.unpipe(sent)).once('close', () => body.destroy())
  body.pipe(sent)
}

/**
 * Returns the function of Node.js that sends a request. Does not import `node:http`, because such an import in an ES
 * module also loads undici in Node.js 24, which takes 60 ms of processor time.
 */
function requestFunction({ protocol }: URL): typeof import('node:http').request {
  return process.getBuiltinModule(protocol === 'https:' ? 'node:https' : 'node:http').request
}

function targetOf(url: string, { path, query = {} }: ClientRequest): URL {
  const target = new URL(`${url}/api/v1${path}`)
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) target.searchParams.set(name, String(value))
  return target
}

/**
 * Ends a request whose connection or answer takes too long.
 * @returns a function that says whether a connection was established; if not, the request was not sent
 */
function limitSilence(
  sent: SentRequest,
  url: string,
  { connectMs, answerMs }: Omit<TimeLimits, 'uploadMs'>,
): () => boolean {
  let isConnected = false
  const expire = (): void => void sent.destroy(new UnreachableError(`${url} does not answer`, '', isConnected))
  const timer = setTimeout(expire, connectMs)
  const connected = (): void => {
    isConnected = true
    clearTimeout(timer)
  }
  sent.once('socket', (socket) => {
    if (sent.reusedSocket) return connected()
    socket.once(sent.protocol === 'https:' ? 'secureConnect' : 'connect', connected)
  })
  sent.once('close', () => clearTimeout(timer))
  sent.setTimeout(answerMs, expire)
  return () => isConnected
}

function openAnswer(response: IncomingMessage, url: string, signal: AbortSignal | undefined): OpenAnswer {
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    parts: partsOf(response, url, signal),
    close: () => void response.destroy(),
  }
}

async function* partsOf(
  response: IncomingMessage,
  url: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const parts = response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
  try {
    for (;;) {
      const part = await nextPart(parts, url, signal)
      if (part.done === true) return
      yield part.value
    }
  } finally {
    response.destroy()
  }
}

async function nextPart(
  parts: AsyncIterator<Uint8Array>,
  url: string,
  signal: AbortSignal | undefined,
): Promise<IteratorResult<Uint8Array>> {
  try {
    return await parts.next()
  } catch (cause) {
    throw signal?.aborted ? signal.reason : unreachable(url, cause as NodeJS.ErrnoException, true)
  }
}

function unreachable(url: string, cause: NodeJS.ErrnoException, wasSent: boolean): UnreachableError {
  if (cause instanceof UnreachableError) return cause
  return new UnreachableError(describeFailure(url, cause), cause.code ?? '', wasSent)
}
