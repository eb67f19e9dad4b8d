import { setTimeout as delay } from 'node:timers/promises'
import type { ClientRequest, Connection, OpenAnswer } from './connection.js'
import { RefusedError, UnexpectedAnswerError } from './errors.js'
import { exchange } from './exchange.js'
import { planRetry, type RetryLimits } from './plan-retry.js'
import { parseRefusal } from './refusal.js'

/** Maximum size in bytes of an error answer. The rest of a longer answer is not read. */
const maxRefusalBytes = 1024 * 1024

export interface SenderOptions extends RetryLimits {
  /** Maximum size in bytes of an answer that is read as a whole. */
  readonly maxAnswerBytes: number
  /** Called before a failed request is sent again. */
  readonly onRetry: (error: Error, delayMs: number) => void
}

/** Sends requests, and repeats them as `planRetry` decides. */
export class Sender {
  constructor(
    readonly connection: Connection,
    private readonly options: SenderOptions,
  ) {}

  /**
   * Sends a request and returns the answer before its body was received. All attempts have the same idempotency key.
   * @throws {RefusedError} @throws {UnreachableError} @throws {UnexpectedAnswerError}
   */
  async open(request: ClientRequest, maxSilenceMs?: number): Promise<OpenAnswer> {
    const { method, ifMatch, signal } = request
    const idempotencyKey = request.idempotencyKey ?? (method === 'POST' ? crypto.randomUUID() : '')
    for (let attempt = 1; ; attempt++)
      try {
        return await accept(
          await exchange(this.connection, request, { idempotencyKey, maxSilenceMs }),
          this.connection.url,
        )
      } catch (error) {
        const failed = { method, isConditional: ifMatch !== undefined, attempt, error }
        const pauseMs = planRetry(failed, this.options)
        if (pauseMs === undefined || request.upload) throw error
        this.options.onRetry(error as Error, pauseMs)
        await delay(pauseMs, undefined, signal && { signal })
      }
  }

  /** Sends a request and returns the answer as it is. @throws as `open` */
  async read(request: ClientRequest): Promise<{ answer: OpenAnswer; bytes: Uint8Array }> {
    const answer = await this.open(request)
    const { maxAnswerBytes: max } = this.options
    const bytes = await readUpTo(answer, max)
    if (bytes.length <= max) return { answer, bytes }
    throw new UnexpectedAnswerError(`${this.connection.url} sent an answer of more than ${max} bytes`)
  }
}

/** Reads an answer until its end, or until it is longer than `maxBytes`. */
async function readUpTo({ parts }: OpenAnswer, maxBytes: number): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  let size = 0
  for await (const part of parts) {
    all.push(part)
    size += part.length
    if (size > maxBytes) break
  }
  return Buffer.concat(all)
}

/** Returns a successful answer. @throws {RefusedError} @throws {UnexpectedAnswerError} for a redirection */
async function accept(answer: OpenAnswer, url: string): Promise<OpenAnswer> {
  const { status, headers } = answer
  if (status >= 200 && status < 300) return answer
  const text = new TextDecoder().decode(await readUpTo(answer, maxRefusalBytes))
  if (status >= 300 && status < 400) {
    const location = String(headers['location'] ?? 'another address')
    throw new UnexpectedAnswerError(`${url} redirects to ${location}`, location)
  }
  throw new RefusedError(status, parseRefusal(status, text), secondsOf(headers['retry-after']))
}

function secondsOf(header: unknown): number | undefined {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : undefined
}
