import { Agent as HttpAgent, request as requestHttp, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { Body } from '../body.js'

export interface LabReply {
  /** HTTP status. 0: the client got no complete answer, so it does not know whether the request was executed. */
  readonly status: number
  readonly text: string
  readonly body: Body
}

export interface LabRequest {
  readonly body?: object
  readonly key?: string
  readonly idempotencyKey?: string
  readonly timeoutMs?: number
}

const mostSockets = 400
const defaultTimeoutMs = 60_000

/** Sends requests to HAProxy or to a gateway as the administrator. It does not repeat them. */
export class LabClient {
  readonly #agent: HttpAgent | HttpsAgent
  readonly #isTls: boolean

  constructor(
    private readonly url: string,
    private readonly adminKey: string,
  ) {
    this.#isTls = url.startsWith('https:')
    const keeps = { keepAlive: true, maxSockets: mostSockets }
    this.#agent = this.#isTls ? new HttpsAgent({ ...keeps, rejectUnauthorized: false }) : new HttpAgent(keeps)
  }

  close(): void {
    this.#agent.destroy()
  }

  /** @param path relative to /api/v1 */
  send(method: string, path: string, given: LabRequest = {}): Promise<LabReply> {
    const { body, key = this.adminKey, idempotencyKey, timeoutMs = defaultTimeoutMs } = given
    const headers = {
      'x-api-key': key,
      ...(body && { 'content-type': 'application/json' }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    }
    const options = { method, headers, agent: this.#agent, signal: AbortSignal.timeout(timeoutMs) }
    return this.#exchange(`${this.url}/api/v1${path}`, options, body && JSON.stringify(body))
  }

  #exchange(url: string, options: RequestOptions, body: string | undefined): Promise<LabReply> {
    const request = this.#isTls ? requestHttps : requestHttp
    return new Promise((resolve) => {
      const fail = (error: Error): void => resolve({ status: 0, text: error.message, body: undefined })
      const sent = request(url, options, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('error', fail)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text, body: parse(text) }))
      })
      sent.on('error', fail).end(body)
    })
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // HAProxy's own answers are HTML pages
  }
}
