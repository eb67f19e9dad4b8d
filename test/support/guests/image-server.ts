import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostArch } from '../../../agent/images/catalog.js'

/** Faults of the server. They apply to all later requests for files. */
export interface Manners {
  /** Number of bytes after which the server sends nothing more and keeps the connection open. */
  stallAfter?: number
  /** Number of bytes after which the server cuts the connection. */
  cutAfter?: number
}

/** An image in the server's list. The field names are those of images.linuxcontainers.org. */
export interface OfferedImage {
  readonly distro: string
  readonly release: string
  readonly file: string
  /** SHA-256 in the list. By default the SHA-256 of the file. */
  readonly sha256?: string
  readonly fileType?: string
  readonly variant?: string
  /** Size that the server's list of images states. Default: the real size of the file. */
  readonly sizeBytes?: number
}

/** An image server on loopback that offers a simplestreams list and files, and supports ranges. */
export class ImageServer {
  readonly files = new Map<string, Buffer>()
  readonly offered: OfferedImage[] = []
  readonly asked: string[] = []
  manners: Manners = {}
  readonly #server: Server
  #waiting = 0

  private constructor() {
    this.#server = createServer((request, response) => this.#answer(request, response))
  }

  static async start(): Promise<ImageServer> {
    const server = new ImageServer()
    server.#server.listen(0, '127.0.0.1')
    await once(server.#server, 'listening')
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Number of downloads that are stalled now. */
  get stalled(): number {
    return this.#waiting
  }

  /** Settings of an agent that downloads from this server. */
  get settings(): object {
    return { server: this.url, allow_http: true, allowed_targets: ['127.0.0.1'] }
  }

  add(name: string, content: Buffer): { readonly url: string; readonly sha256: string } {
    this.files.set(`/${name}`, content)
    return { url: `${this.url}/${name}`, sha256: sha256Of(content) }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? ''
    this.asked.push(`${path} ${request.headers.range ?? ''}`.trim())
    if (path === '/streams/v1/images.json') return void response.end(JSON.stringify(this.#list()))
    const content = this.files.get(path)
    if (!content) return void response.writeHead(404).end()
    this.#send(request, response, content)
  }

  #send(request: IncomingMessage, response: ServerResponse, content: Buffer): void {
    const etag = `"${sha256Of(content)}"`
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
    const partial = from > 0 && request.headers['if-range'] === etag
    const part = partial ? content.subarray(from) : content
    const range = { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` }
    response.writeHead(partial ? 206 : 200, {
      etag,
      'content-length': part.length,
      ...(partial ? range : {}),
    })
    const { stallAfter, cutAfter } = this.manners
    if (stallAfter !== undefined && stallAfter < part.length) this.#stall(response, part.subarray(0, stallAfter))
    else if (cutAfter !== undefined && cutAfter < part.length)
      response.write(part.subarray(0, cutAfter), () => setImmediate(() => response.destroy()))
    else response.end(part)
  }

  #stall(response: ServerResponse, part: Buffer): void {
    this.#waiting++
    response.once('close', () => this.#waiting--)
    response.write(part)
  }

  #list(): object {
    const products = Object.fromEntries(this.offered.map((offer) => this.#product(offer)))
    return { format: 'products:1.0', products }
  }

  #product({ distro, release, file, ...more }: OfferedImage): [string, object] {
    const content = this.files.get(`/${file}`) ?? Buffer.alloc(0)
    const { fileType: ftype = 'root.tar.xz', variant = 'default' } = more
    const { sha256 = sha256Of(content), sizeBytes: size = content.length } = more
    const items = { [ftype]: { ftype, path: file, sha256, size } }
    const versions = { '20261101_05:24': { items } }
    return [`${distro}:${release}:${hostArch}:${variant}`, { arch: hostArch, versions }]
  }
}

export function sha256Of(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
