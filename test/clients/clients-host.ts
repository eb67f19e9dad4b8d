import { expect } from 'chai'
import { join } from 'node:path'
import { apiCall, type ApiReply } from '../support/api-call.js'
import { FleetHost, makeSegment, removeSegment } from '../support/fleet-host.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway-process.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const name = 'btest-clients'
const segment = { bridge: 'btest-cl', prefix: '198.18.115' }

/** A real gateway with a real host, which all conversations share. */
export class ClientsHost {
  readonly directory = `/var/tmp/${name}`
  readonly #host = new FleetHost({ name: 'fcl', index: 1, segment, directory: this.directory })
  #gateway: GatewayProcess | undefined
  #wipe: (() => void) | undefined

  async start(): Promise<void> {
    await endLeftGateway(join(this.directory, 'gateway'))
    await this.#host.remove()
    this.#wipe = scratchDirectory(name).wipe
    makeSegment(segment)
    const gateway = await GatewayProcess.create(join(this.directory, 'gateway'), `${segment.prefix}.1`)
    this.#gateway = gateway
    gateway.start()
    await gateway.ready()
    await this.#host.make()
    const body = { name: this.#host.name, address: this.#host.address }
    const { body: added } = await gateway.request('POST', '/hosts', { body })
    this.#host.join(added.data.join_token as string)
    this.#host.start()
    await waitFor(async () => (await gateway.request('GET', '/hosts')).body.data[0].status === 'online', {
      timeoutMs: 30_000,
      what: () => `host online\n${this.#host.logTail()}`,
    })
  }

  async stop(): Promise<void> {
    await this.#gateway?.close()
    await this.#host.remove()
    removeSegment(segment)
    this.#wipe?.()
  }

  /** http://host:port */
  get url(): string {
    return this.#gateway?.url ?? ''
  }

  get key(): string {
    return this.#gateway?.adminKey ?? ''
  }

  /** One request with bytes as they are; the answer is checked against the document. */
  send(
    method: string,
    path: string,
    options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
  ): Promise<ApiReply> {
    return apiCall(this.url, [method, path], options)
  }

  /** What the server itself has of a container, to compare with what a client believes. */
  async detail(container: string): Promise<ApiReply['body']> {
    const { status, body, text } = await this.send('GET', `/api/v1/containers/${container}`, {
      headers: { 'x-api-key': this.key },
    })
    expect(status, text).to.equal(200)
    return body.data
  }
}
