import { createServer, request as ask, type Server } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { makeSelfSigned } from '../../../gateway/tls/keys.js'

/** An answer that the proxy gives instead of the server. */
export interface Answer {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly problem: object
}

/** A proxy in front of an ACME server. It simulates failures of the server. */
export class AcmeProxy {
  /** Called for each request. If it returns an answer, the server does not get the request. */
  meddle: (path: string) => Answer | undefined = () => undefined
  /** Delay in ms before a request is passed on. */
  delayMs = 0
  readonly asked: string[] = []

  private constructor(
    private readonly server: Server,
    readonly caPem: string,
    private readonly upstreamPort: number,
  ) {}

  static async start(upstreamPort: number): Promise<AcmeProxy> {
    const { chainPem, keyPem } = await makeSelfSigned('127.0.0.1')
    const server = createServer({ cert: chainPem, key: keyPem })
    const proxy = new AcmeProxy(server, chainPem, upstreamPort)
    server.on('request', (request, response) => void proxy.#pass(request, response))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return proxy
  }

  get url(): string {
    return `https://127.0.0.1:${(this.server.address() as AddressInfo).port}/dir`
  }

  async close(): Promise<void> {
    this.server.closeAllConnections()
    await new Promise<void>((done) => this.server.close(() => done()))
  }

  /** Forwards a request with its Host header, because the ACME server builds its URLs from this header. */
  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '/'
    this.asked.push(path)
    const instead = this.meddle(path)
    if (instead !== undefined) {
      response.writeHead(instead.status, { 'content-type': 'application/problem+json', ...instead.headers })
      return void response.end(JSON.stringify(instead.problem))
    }
    await delay(this.delayMs)
    const { method, headers } = request
    const target = { host: '127.0.0.1', port: this.upstreamPort, path, method, headers }
    const upstream = ask({ ...target, rejectUnauthorized: false, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    upstream.once('error', () => response.destroy())
    request.pipe(upstream)
  }
}
