import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { parse } from 'yaml'
import { ask, createClient } from '../support/ask.js'
import { waitFor } from '../support/wait.js'

interface Envelope {
  success: boolean
  message?: string
  data?: unknown
}

/** The API of the instance named bench, which scripts/up has set up. */
export class BerthApi {
  readonly #client = createClient({ maxConnections: 32 })
  readonly #key: string
  readonly url: string

  constructor(configDirectory = '/etc/berth-bench') {
    this.#key = readFileSync(`${configDirectory}/admin.key`, 'utf8').trim()
    const config = parse(readFileSync(`${configDirectory}/gateway.yaml`, 'utf8')) as { listen?: string }
    this.url = `http://${config.listen ?? '127.0.0.1:8080'}`
  }

  get key(): string {
    return this.#key
  }

  /** Sends a request. If the rate limit rejects the request, it is repeated after the time in Retry-After. */
  async call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
    const { status, headers, text } = await ask(this.#client, `${this.url}/api/v1${path}`, {
      method,
      headers: { 'x-api-key': this.#key, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const envelope = JSON.parse(text) as Envelope
    if (status === 429) {
      await delay(Number(headers['retry-after']) * 1000)
      return this.call(method, path, body)
    }
    if (!envelope.success) throw new Error(`${method} ${path}: ${status} ${envelope.message}`)
    return envelope.data as T
  }

  create(name: string): Promise<{ task_id: string }> {
    return this.call('POST', '/containers', {
      name,
      virtualization: 'lxc',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 256,
      disk_gb: 2,
      assign_nat: true,
    })
  }

  async status(name: string): Promise<string> {
    return (await this.call<{ status: string }>('GET', `/containers/${name}`)).status
  }

  async untilStatus(name: string, status: string, timeoutMs = 60_000): Promise<void> {
    await waitFor(async () => (await this.status(name)) === status, {
      timeoutMs,
      intervalMs: 2,
      what: `${name} ${status}`,
    })
  }

  async untilGone(name: string, timeoutMs = 30_000): Promise<void> {
    await waitFor(async () => !(await this.exists(`/containers/${name}`)), {
      timeoutMs,
      intervalMs: 2,
      what: `${name} gone`,
    })
  }

  async untilDone(taskId: string): Promise<void> {
    await waitFor(
      async () => {
        const task = await this.call<{ status: string; error: string }>('GET', `/tasks/${taskId}`)
        if (task.status === 'failed') throw new Error(task.error)
        return task.status === 'done'
      },
      { intervalMs: 2 },
    )
  }

  async exists(path: string): Promise<boolean> {
    const headers = { 'x-api-key': this.#key }
    const { status } = await ask(this.#client, `${this.url}/api/v1${path}`, { headers })
    return status !== 404
  }

  close(): void {
    this.#client.close()
  }
}
