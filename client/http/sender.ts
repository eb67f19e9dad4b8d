import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { ClientRequest, Connection, OpenAnswer } from './connection.js'
import { RefusedError, UnexpectedAnswerError } from './errors.js'
import { exchange } from './exchange.js'
import { planRetry, type RetryLimits } from './plan-retry.js'
import { parseRefusal } from './refusal.js'

export interface SenderOptions extends RetryLimits {
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
    const { method, ifMatch, signal, idempotencyKey = randomUUID() } = request
    for (let attempt = 1; ; attempt++)
      try {
        return await accept(
          await exchange(this.connection, request, { idempotencyKey, maxSilenceMs }),
          this.connection.url,
        )
      } catch (error) {
        const failed = { method, isConditional: ifMatch !== undefined, attempt, error }
        const pauseMs = planRetry(failed, this.options)
        if (pauseMs === undefined) throw error
        this.options.onRetry(error as Error, pauseMs)
        await delay(pauseMs, undefined, signal && { signal })
      }
  }

  /** Sends a request and returns the answer as it is. @throws as `open` */
  async read(request: ClientRequest): Promise<{ answer: OpenAnswer; bytes: Uint8Array }> {
    const answer = await this.open(request)
    return { answer, bytes: await readAll(answer) }
  }
}

async function readAll({ parts }: OpenAnswer): Promise<Uint8Array> {
  const all: Uint8Array[] = []
  for await (const part of parts) all.push(part)
  return Buffer.concat(all)
}

/** Returns a successful answer. @throws {RefusedError} @throws {UnexpectedAnswerError} for a redirection */
async function accept(answer: OpenAnswer, url: string): Promise<OpenAnswer> {
  const { status, headers } = answer
  if (status >= 200 && status < 300) return answer
  const text = new TextDecoder().decode(await readAll(answer))
  if (status >= 300 && status < 400) {
    const location = String(headers['location'] ?? 'another address')
    throw new UnexpectedAnswerError(`${url} redirects to ${location}`, location)
  }
  throw new RefusedError(status, parseRefusal(status, text), secondsOf(headers['retry-after']))
}

function secondsOf(header: unknown): number | undefined {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : undefined
}
