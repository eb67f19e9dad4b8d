import { join } from 'node:path'
import { expect } from 'chai'
import type { ApiReply } from '../gateway/api-call.js'
import { FleetHost, makeSegment, removeSegment, type Segment } from './fleet-host.js'
import { endLeftGateway, GatewayProcess } from '../gateway/gateway-process.js'
import { scratchDirectory } from '../scratch.js'
import { waitFor } from '../wait.js'

export interface ServedHostOptions {
  /** Name for interfaces and directories, with at most three letters. */
  readonly name: string
  /** First three numbers of the /24 between gateway and host, such as `198.18.138`. */
  readonly prefix: string
  /** Settings that replace those of the gateway's configuration. */
  readonly overrides?: Record<string, unknown>
  /** Adds images to the host's pool before its agent starts. */
  readonly prepare?: (pool: string) => unknown
}

interface GuestRow {
  readonly id: number
  readonly uuid: string
  readonly status: string
}

/** A real gateway, and a separate host whose real agent has joined it. */
export class ServedHost {
  readonly host: FleetHost
  readonly directory: string
  readonly segment: Segment
  #gateway: GatewayProcess | undefined
  #wipe: (() => void) | undefined

  constructor(private readonly options: ServedHostOptions) {
    const { name, prefix } = options
    this.directory = `/var/tmp/btest-${name}`
    this.segment = { bridge: `btest-${name}b`, prefix }
    this.host = new FleetHost({ name, index: 1, segment: this.segment, directory: this.directory })
  }

  get gateway(): GatewayProcess {
    return this.#gateway!
  }

  /** Starts the gateway and the host. First it removes everything that a crashed run left. */
  async start(): Promise<void> {
    await endLeftGateway(join(this.directory, 'gateway'))
    await this.host.remove()
    this.#wipe = scratchDirectory(`btest-${this.options.name}`).wipe
    makeSegment(this.segment)
    await this.#startGateway()
    await this.host.make()
    await this.options.prepare?.(this.host.instance.pool)
    await this.#join()
    await this.online()
  }

  async close(): Promise<void> {
    await this.#gateway?.close()
    await this.host.remove()
    removeSegment(this.segment)
    this.#wipe?.()
  }

  /** Sends a request as the administrator. @throws if it does not succeed */
  async send(method: string, path: string, body?: unknown): Promise<ApiReply['body']> {
    const reply = await this.gateway.request(method, path, body === undefined ? {} : { body })
    expect(reply.status, `${method} ${path} ${JSON.stringify(reply.body)}`).to.be.below(300)
    return reply.body
  }

  /** Resolves when the gateway shows the host as online. It may be called while the gateway is still starting. */
  online(): Promise<unknown> {
    return this.#waitForStatus('online')
  }

  /** Kills the agent. Resolves when the gateway has noticed this, so that `online` waits for the next agent. */
  async killAgent(): Promise<void> {
    await this.host.kill()
    await this.#waitForStatus('offline')
  }

  #waitForStatus(status: string): Promise<unknown> {
    return waitFor(
      async () => {
        const answer = await this.gateway.request('GET', '/hosts').catch(() => undefined)
        return answer?.status === 200 && answer.body.data[0].status === status
      },
      { what: () => `host ${status}\n${this.host.logTail()}` },
    )
  }

  /** Creates a guest and waits until the guest runs. */
  async create(name: string, fields: object = {}): Promise<GuestRow> {
    const sizes = { template_id: 'debian-12', vcpu: 1, ram_mb: 128, disk_gb: 1 }
    await this.send('POST', '/containers', { name, ...sizes, ...fields })
    return this.running(name)
  }

  running(name: string): Promise<GuestRow> {
    return waitFor(
      async () => {
        const { status, body } = await this.gateway.request('GET', `/containers/${name}`)
        const guest = body?.data as GuestRow | undefined
        return status === 200 && guest?.status === 'running' ? guest : undefined
      },
      { what: () => `${name} runs\n${this.host.logTail()}` },
    )
  }

  /** Resolves when the task has succeeded. @throws with the error of the task */
  taskDone(id: string): Promise<unknown> {
    return waitFor(
      async () => {
        const { status, error } = (await this.send('GET', `/tasks/${id}`)).data
        if (status === 'failed') throw new Error(error)
        return status === 'done'
      },
      { what: () => `task ${id}\n${this.host.logTail()}` },
    )
  }

  async #startGateway(): Promise<void> {
    const { prefix } = this.segment
    const directory = join(this.directory, 'gateway')
    this.#gateway = await GatewayProcess.create(directory, `${prefix}.1`, this.options.overrides)
    this.#gateway.start()
    await this.#gateway.ready()
  }

  async #join(): Promise<void> {
    const body = { name: this.host.name, address: this.host.address }
    this.host.join((await this.send('POST', '/hosts', body)).data.join_token)
    this.host.start()
  }
}
