import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface JsonAnswer {
  readonly status: number
  readonly body: unknown
}

/** Changes the answer to a request. @param path path below `/api/v1`, without the query */
export type ChangeAnswer = (path: string, answer: JsonAnswer) => JsonAnswer

/** The answer of a gateway that does not know an endpoint. */
export const unknownEndpoint: JsonAnswer = {
  status: 501,
  body: { success: false, code: 'unsupported', message: 'this endpoint does not exist in this version: see /docs' },
}

/** A server that answers like a gateway of another version. It changes the answers of a real gateway. */
export class OtherVersion {
  private constructor(
    private readonly server: Server,
    private readonly target: string,
    private readonly change: ChangeAnswer,
  ) {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#answer(request, response).catch(() => response.destroy())
    })
  }

  static async start(target: string, change: ChangeAnswer): Promise<OtherVersion> {
    const server = createServer()
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return new OtherVersion(server, target, change)
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '', headers } = request
    const sent = await text(request)
    const given = await fetch(this.target + url, {
      method,
      headers: { 'x-api-key': String(headers['x-api-key']), 'content-type': 'application/json' },
      ...(sent !== '' && { body: sent }),
    })
    const path = url.replace(/^\/api\/v1/, '').replace(/\?.*/, '')
    const { status, body } = this.change(path, { status: given.status, body: await given.json() })
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
}
