import type { IncomingMessage } from 'node:http'
import { BerthError } from '../../shared/errors.js'

const maxDepth = 32
/**
 * Limits for reading the unread part of a rejected body. Many clients only read the answer after they have sent the
 * whole body. If the connection were closed earlier, they would get a reset instead of the answer (RFC 9112, 9.6).
 */
const drain = { timeoutMs: 10_000, bytes: 128 * 1024 * 1024 } as const

/**
 * Reads the body of a request. Without a body the result is empty.
 * @throws {BerthError} `payload_too_large` as soon as more than `maxBytes` are announced or received,
 * `unsupported_media_type` for an encoded body, `invalid_body` if the client disconnects
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced === 0 && request.headers['transfer-encoding'] === undefined) return Buffer.alloc(0)
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity')
    throw refuse(
      'unsupported_media_type',
      'encoded request bodies are not supported: send the body without Content-Encoding',
    )
  if (announced > maxBytes) throw tooLarge(maxBytes)
  return collect(request, maxBytes)
}

export interface BodyRules {
  /**
   * True: accepts form types, because PHP and curl send them by default with any body. Must be false for callers with a
   * session, because any page can make a browser send a form.
   */
  readonly allowsForm?: boolean
}

/**
 * Parses a body as a JSON object. A missing body and `[]` become `{}`, because some clients send empty objects as
 * arrays.
 * @throws {BerthError} `unsupported_media_type`, `invalid_json`
 */
export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  { allowsForm = false }: BodyRules = {},
): Record<string, unknown> {
  if (bytes.length === 0) return {}
  const isJsonInForm = allowsForm && isForm(contentType) && findJson(bytes) !== undefined
  if (!maySayJson(contentType) && !isJsonInForm)
    throw refuse('unsupported_media_type', 'the body must be JSON, sent with "Content-Type: application/json"')
  return parseObject(bytes)
}

/**
 * Parses an optional body, whatever its Content-Type. A body that is not a JSON object counts as absent.
 * @throws {BerthError} `invalid_json` if the object is nested too deeply
 */
export function parseOptionalBody(bytes: Buffer): Record<string, unknown> {
  const value = bytes.length === 0 ? undefined : findJson(bytes)
  return isObject(value) ? hardened(value) : {}
}

function parseObject(bytes: Buffer): Record<string, unknown> {
  const value = findJson(bytes)
  // The error has no cause, because JSON.parse quotes the body, which can contain secrets.
  if (value === undefined) throw refuse('invalid_json', 'the body is not valid JSON in UTF-8')
  if (Array.isArray(value) && value.length === 0) return {}
  if (!isObject(value)) throw refuse('invalid_json', 'the body must be a JSON object')
  return hardened(value)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function hardened(value: Record<string, unknown>): Record<string, unknown> {
  harden(value, 1)
  return value
}

function refuse(code: string, message: string): BerthError {
  return new BerthError('invalid', code, message)
}

export function isForm(contentType: string | undefined): boolean {
  return /^application\/x-www-form-urlencoded\s*(;|$)/i.test((contentType ?? '').trim())
}

/** True for JSON types, text types and a missing type. */
function maySayJson(contentType: string | undefined): boolean {
  const [type = '', ...parameters] = (contentType ?? '').toLowerCase().split(';')
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith('charset='))
  return (
    /^(|text\/[a-z0-9.!#$&^_+-]+|application\/([a-z0-9.!#$&^_-]+\+)?json)$/.test(type.trim()) &&
    (charset === undefined || /^charset="?(utf-?8|us-ascii)"?$/.test(charset))
  )
}

/** @returns undefined if the bytes are not JSON in UTF-8 */
function findJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** Limits the nesting and removes `__proto__` members, which later code could copy into an object. */
function harden(value: object, depth: number): void {
  if (depth > maxDepth) throw refuse('invalid_json', `the body is nested deeper than ${maxDepth} levels`)
  if (Object.hasOwn(value, '__proto__')) Reflect.deleteProperty(value, '__proto__')
  for (const child of Object.values(value) as unknown[])
    if (typeof child === 'object' && child !== null) harden(child, depth + 1)
}

function collect(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size <= maxBytes) return void chunks.push(chunk)
      request.off('data', onData)
      reject(tooLarge(maxBytes))
    }
    const onBreak = (): void =>
      reject(refuse('invalid_body', 'the connection ended before the complete body was received'))
    request.on('data', onData)
    request.once('end', () => resolve(Buffer.concat(chunks)))
    request.once('error', onBreak)
    request.once('close', onBreak)
  })
}

function tooLarge(maxBytes: number): BerthError {
  return refuse('payload_too_large', `the body must not exceed ${maxBytes} bytes`)
}

/**
 * Reads and discards the unread part of a rejected request. Disconnects clients that exceed the limits in `drain`.
 * @returns undefined if everything was read, otherwise a promise for the end of the request
 */
export function drainRest(request: IncomingMessage): Promise<void> | undefined {
  if (request.complete || request.destroyed || request.listenerCount('data') > 0) return undefined
  return new Promise((resolve) => {
    let size = 0
    const hangUp = (): void => void request.socket.destroy()
    const timer = setTimeout(hangUp, drain.timeoutMs)
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > drain.bytes) hangUp()
    })
    const settle = (): void => {
      clearTimeout(timer)
      resolve()
    }
    request.once('end', settle).once('close', settle)
  })
}
