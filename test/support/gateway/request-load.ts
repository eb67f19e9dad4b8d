import { Agent, get } from 'node:http'
import { Agent as TlsAgent, get as getOverTls } from 'node:https'

interface Way {
  readonly name: string
  readonly url: string
  readonly agent: Agent | TlsAgent | false
}

export interface RequestLoadOptions {
  /** URL of the gateway without TLS, such as `http://10.0.0.1:8080`. */
  readonly url: string
  /** URL of the gateway with TLS, such as `https://10.0.0.1`. */
  readonly tlsUrl: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly perSecond: number
}

/** Requests at a constant rate, alternately over kept-alive and new connections, with and without TLS. */
export class RequestLoad {
  done = 0
  readonly failures: string[] = []
  slowestMs = 0
  #sent = 0
  #waiting = 0
  readonly #begunMs = performance.now()
  readonly #timer: NodeJS.Timeout
  readonly #ways: readonly Way[]

  constructor(private readonly options: RequestLoadOptions) {
    const { url, tlsUrl } = options
    const keeps = { keepAlive: true, maxSockets: 4 }
    this.#ways = [
      { name: 'kept', url, agent: new Agent(keeps) },
      { name: 'new', url, agent: false },
      { name: 'kept TLS', url: tlsUrl, agent: new TlsAgent({ ...keeps, rejectUnauthorized: false }) },
      { name: 'new TLS', url: tlsUrl, agent: false },
    ]
    this.#timer = setInterval(() => this.#sendDue(), 5)
  }

  /** Resolves when all requests have been answered. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    while (this.#waiting > 0) await new Promise((resolve) => setTimeout(resolve, 20))
    for (const { agent } of this.#ways) if (agent) agent.destroy()
  }

  #sendDue(): void {
    const due = ((performance.now() - this.#begunMs) / 1000) * this.options.perSecond
    while (this.#sent < due) this.#send(this.#ways[this.#sent++ % this.#ways.length]!)
  }

  #send({ name, url, agent }: Way): void {
    const { path, headers } = this.options
    const startMs = performance.now()
    this.#waiting++
    const end = (failure: string): void => {
      this.#waiting--
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startMs)
      if (failure === '') this.done++
      else this.failures.push(`${name}, ${Math.round(startMs - this.#begunMs)} ms: ${failure}`)
    }
    const ask = url.startsWith('https:') ? getOverTls : get
    const sent = ask(url + path, { agent, headers, rejectUnauthorized: false }, (response) => {
      response.resume().once('end', () => end(response.statusCode === 200 ? '' : `status ${response.statusCode}`))
    })
    sent.once('error', (error) => end(error.message))
  }
}
