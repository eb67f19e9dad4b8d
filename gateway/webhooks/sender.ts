import { lookup } from 'node:dns'
import { describeError } from '../../shared/errors.js'
import { checkedLookup, readOwnAddresses } from '../../shared/outbound-lookup.js'
import { discardBody, OutboundClient } from '../../shared/outbound-request.js'
import { parseTargetUrl, type TargetPolicy } from '../../shared/outbound-targets.js'
import { version } from '../../shared/version.js'
import type { DeliveryAttempt } from './delivery.js'
import { signatureHeaders, type SignedMessage } from './signature.js'

export interface SenderOptions {
  readonly policy: TargetPolicy
  /** Time limit of an attempt in ms, from looking up the name to reading the answer. Default: 10 s. */
  readonly timeoutMs?: number
}

export interface WebhookMessage extends Omit<SignedMessage, 'atMs'> {
  readonly url: string
  readonly secret: string
  readonly type: string
}

const longestError = 200
const maxConnections = 8
const maxHeaderBytes = 16_384
/** Maximum number of bytes that are read from an answer. If the body is longer, the connection is closed. */
const mostDiscardedBytes = 16_384

/** Sends messages to receivers that are not trusted. Only the status of an answer is used; its body is discarded. */
export class WebhookSender {
  readonly #client: OutboundClient

  constructor(private readonly options: SenderOptions) {
    const ms = this.#timeoutMs
    this.#client = new OutboundClient({
      timeouts: { connectMs: ms, headersMs: ms, bodyMs: ms },
      lookup: checkedLookup(options.policy, lookup, readOwnAddresses),
      maxConnections,
      maxHeaderBytes,
    })
  }

  get #timeoutMs(): number {
    return this.options.timeoutMs ?? 10_000
  }

  close(): void {
    this.#client.close()
  }

  /** Makes one attempt. A 2xx status means success. Redirects are not followed. Never rejects. */
  async send(message: WebhookMessage, signal: AbortSignal): Promise<DeliveryAttempt> {
    const [atMs, begunMs] = [Date.now(), performance.now()]
    const ended = (status: number, error: string): DeliveryAttempt => ({
      atMs,
      durationMs: Math.round(performance.now() - begunMs),
      status,
      error: error.slice(0, longestError),
    })
    try {
      const status = await this.#ask(message, atMs, signal)
      return ended(status, status >= 200 && status < 300 ? '' : `the receiver answered ${status}`)
    } catch (error) {
      return ended(0, describeError(error))
    }
  }

  async #ask({ url, secret, type, ...message }: WebhookMessage, atMs: number, signal: AbortSignal): Promise<number> {
    const target = parseTargetUrl(url, this.options.policy, readOwnAddresses())
    const { status, body } = await this.#client.send(target, {
      method: 'POST',
      signal: AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)]),
      headers: {
        'content-type': 'application/json',
        'user-agent': `berth-webhooks/${version}`,
        'berth-event': type,
        ...signatureHeaders(secret, { ...message, atMs }),
      },
      body: message.body,
    })
    await discardBody(body, mostDiscardedBytes)
    return status
  }
}
