import { Agent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import type { BalancedLab } from './balanced-lab.js'

export interface LoadFailure {
  readonly worker: number
  readonly method: string
  readonly reason: string
}

/**
 * Constant load through HAProxy. Each worker sends one request after another: some read and some create API keys, over
 * one connection or a new connection for each request.
 */
export class BalancedLoad {
  readonly done = new Map<string, number>()
  readonly failures: LoadFailure[] = []
  readonly #workers: Promise<void>[]
  #isEnded = false

  constructor(private readonly lab: BalancedLab) {
    this.#workers = Array.from({ length: 8 }, (_, worker) => this.#run(worker))
  }

  /** Number of requests with this method that succeeded. */
  count(method: string): number {
    return this.done.get(method) ?? 0
  }

  /** Resolves when all requests have been answered. */
  async end(): Promise<void> {
    this.#isEnded = true
    await Promise.all(this.#workers)
  }

  async #run(worker: number): Promise<void> {
    const agent = new Agent({ keepAlive: worker % 4 < 2, maxSockets: 1 })
    const method = worker % 2 === 0 ? 'GET' : 'POST'
    while (!this.#isEnded) {
      const reason = await this.#send(method, agent)
      if (reason === '') this.done.set(method, this.count(method) + 1)
      else this.failures.push({ worker, method, reason })
      await delay(20)
    }
    agent.destroy()
  }

  /** @returns reason of the failure; "" if the request succeeded */
  async #send(method: 'GET' | 'POST', agent: Agent): Promise<string> {
    const order = method === 'GET' ? { agent } : { agent, body: { name: 'load', scopes: ['container:read'] } }
    return this.lab.ask(method, '/api-keys?per_page=1', order).then(
      ({ status, text }) => (status < 400 ? '' : `${status} ${text}`),
      (error: Error) => error.message,
    )
  }
}
