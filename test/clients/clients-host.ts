import { expect } from 'chai'
import { apiCall, type ApiReply } from '../support/gateway/api-call.js'
import { ServedHost } from '../support/host/served-host.js'

/** A real gateway with a real host, shared by all conversations. */
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

  /** http://host:port */
  get url(): string {
    return this.#lab.gateway.url
  }

  get key(): string {
    return this.#lab.gateway.adminKey
  }

  /** Sends a request with unchanged bytes, and checks the answer against the API document. */
  send(
    method: string,
    path: string,
    options: { readonly headers?: Record<string, string>; readonly body?: string } = {},
  ): Promise<ApiReply> {
    return apiCall(this.url, [method, path], options)
  }

  /** The server's own data of a container, to compare with a client's data. */
  async detail(container: string): Promise<ApiReply['body']> {
    const { status, body, text } = await this.send('GET', `/api/v1/containers/${container}`, {
      headers: { 'x-api-key': this.key },
    })
    expect(status, text).to.equal(200)
    return body.data
  }
}
