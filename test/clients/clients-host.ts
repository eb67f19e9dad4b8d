import { expect } from 'chai'
import { apiCall, type ApiReply } from '../support/gateway/api-call.js'
import { ServedHost } from '../support/host/served-host.js'

/** A real gateway and a real host, which all tests of clients use. */
export class ClientsHost {
  readonly #lab = new ServedHost({ name: 'fcl', prefix: '198.18.115' })

  get directory(): string {
    return this.#lab.directory
  }

  start(): Promise<void> {
    return this.#lab.start()
  }

  stop(): Promise<void> {
    return this.#lab.close()
  }

  /** Base URL of the gateway, without a slash at the end. */
  get url(): string {
    return this.#lab.gateway.url
  }

  get key(): string {
    return this.#lab.gateway.adminKey
  }

  /** Sends a request without changing it, and checks the answer against the API document. */
  send(
    method: string,
    path: string,
    options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
  ): Promise<ApiReply> {
    return apiCall(this.url, [method, path], options)
  }

  /** The data of a container as the API returns it, to compare it with a client's data. */
  async detail(container: string): Promise<ApiReply['body']> {
    const { status, body, text } = await this.send('GET', `/api/v1/containers/${container}`, {
      headers: { 'x-api-key': this.key },
    })
    expect(status, text).to.equal(200)
    return body.data
  }
}
