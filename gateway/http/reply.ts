import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RateState } from '../access/request-limits.js'
import { bodyLength, bodyText, isPieces, type ReplyBody } from './reply-body.js'
import type { Answer } from './route.js'

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: ReplyBody
  readonly cookies?: readonly string[]
  /** Writes the body after the headers were sent. */
  readonly stream?: (response: ServerResponse) => void
  /** Called instead of `stream` if the body is not sent. */
  readonly unused?: (() => void) | undefined
}

export const jsonType = 'application/json; charset=utf-8'

/** Headers of all responses except pages. Browsers must not guess the type, run the content or show it in a frame. */
const constantHeaders = [
  'X-Content-Type-Options',
  'nosniff',
  'Content-Security-Policy',
  "default-src 'none'; frame-ancestors 'none'",
]

/** Strong ETag of a body. */
export function etagOf(body: Buffer | string): string {
  return `"${hash('sha1', body, 'base64url')}"`
}

/** Wraps data in JSON in the envelope of a successful answer. */
export function envelopeAround(json: string): string {
  return `{"success":true,"data":${json}}`
}

/** Headers of a stream. Proxies must not buffer or cache a stream. */
const streamHeaders = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Accel-Buffering': 'no',
}

/** Converts a handler's answer to a response. For reads, adds an ETag, and uses 304 if the client has the content. */
export function answerReply(answer: Answer<unknown>, request: IncomingMessage): Reply {
  const { stream, unused } = answer
  if (stream) return { status: 200, headers: { ...streamHeaders, ...answer.headers }, body: '', stream, unused }
  const status = answer.status ?? 200
  const body = answer.prepared?.body ?? envelope(answer)
  const headers: Record<string, string> = { 'Content-Type': jsonType, 'Cache-Control': 'no-store' }
  if (answer.headers !== undefined) Object.assign(headers, answer.headers)
  if (!isRead(request)) return { status, headers, body, ...(answer.cookies && { cookies: answer.cookies }) }
  const etag = answer.prepared?.etag ?? etagOf(bodyText(body))
  headers['ETag'] = etag
  headers['Cache-Control'] = 'private, no-cache'
  const known = status === 200 && matchesEtag(request.headers['if-none-match'], etag)
  return known ? { status: 304, headers, body: '' } : { status, headers, body }
}

function isRead({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Data that all responses contain in their headers. */
interface About {
  readonly requestId: string
  readonly rate: RateState | undefined
  readonly hsts?: string | undefined
}

/**
 * Sends a response with the headers that all responses have.
 * @param drained resolves when the request was read to its end. The response ends only after that, because Node might
 * otherwise close the connection too early.
 */
export function sendReply(response: ServerResponse, reply: Reply, about: About, drained?: Promise<void>): void {
  if (response.headersSent || response.destroyed) return reply.unused?.()
  const bodiless = isBodiless(reply)
  const headers = headerList(reply, about, bodiless)
  // The unread rest of this request hides the beginning of the next one, so the connection must be closed.
  if (drained !== undefined) headers.push('Connection', 'close')
  response.writeHead(reply.status, headers)
  if (reply.stream && response.req.method !== 'HEAD') return reply.stream(response)
  reply.unused?.()
  // HEAD needs no check here, because Node omits the body.
  if (bodiless) return void response.end()
  sendBody(response, reply, drained)
}

/** True if the response has no body, or a stream of unknown length. */
function isBodiless({ status, stream }: Reply): boolean {
  return status === 304 || status === 204 || stream !== undefined
}

function sendBody(response: ServerResponse, reply: Reply, drained: Promise<void> | undefined): void {
  if (drained === undefined && !isPieces(reply.body)) return void response.end(reply.body)
  // Writes everything in one system call if possible.
  response.cork()
  for (const piece of isPieces(reply.body) ? reply.body : [reply.body]) response.write(piece)
  if (drained === undefined) return void response.end()
  response.uncork()
  void drained.then(() => response.end())
}

/**
 * Returns alternating names and values. Node accepts such a list, which costs half as much as merging objects. The list
 * must contain all headers. Node would otherwise send only the last header of each name, for example one cookie.
 */
function headerList(
  { headers, body, cookies = [] }: Reply,
  { requestId, rate, hsts }: About,
  bodiless: boolean,
): string[] {
  const list = constantHeaders.slice()
  if (headers['content-security-policy'] !== undefined) list.length = 0
  for (const name in headers) list.push(name, headers[name] ?? '')
  for (const cookie of cookies) list.push('Set-Cookie', cookie)
  if (!bodiless) list.push('Content-Length', String(bodyLength(body)))
  list.push('X-Request-Id', requestId)
  if (hsts !== undefined) list.push('Strict-Transport-Security', hsts)
  if (rate !== undefined) addRate(list, rate)
  return list
}

/** Adds the three common headers of draft-ietf-httpapi-ratelimit-headers-06. */
function addRate(list: string[], { limit, remaining, resetSeconds }: RateState): void {
  list.push('RateLimit-Limit', String(limit), 'RateLimit-Remaining', String(remaining))
  list.push('RateLimit-Reset', String(resetSeconds))
}

function envelope(answer: Answer<unknown>): string {
  return JSON.stringify({ success: true, message: answer.message, data: answer.data, ...answer.more })
}

/** Compares ETags weakly; `*` matches every tag (RFC 9110, 13.1.2). */
function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  if (header === etag || header.trim() === '*') return true
  return header.split(',').some((part) => part.trim().replace(/^W\//, '') === etag)
}
