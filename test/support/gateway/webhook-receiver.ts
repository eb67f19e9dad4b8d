import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { waitFor } from '../wait.js'

export interface ReceivedMessage {
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly path: string
  readonly body: {
    readonly id: string
    readonly type: string
    readonly container_uuid: string
    readonly truncated: boolean
    readonly data: Record<string, unknown>
  }
}

/** Answers a message. @param count number of earlier messages */
export type Answering = (response: ServerResponse, message: ReceivedMessage, count: number) => void

export const takes: Answering = (response) => void response.writeHead(204).end()
export const answers =
  (status: number, headers: Record<string, string> = {}): Answering =>
  (response) =>
    void response.writeHead(status, headers).end('no')

/** A receiver of webhooks that a test controls, by default on loopback. */
export class WebhookReceiver {
  readonly messages: ReceivedMessage[] = []
  answer: Answering = takes
  #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const { headers, url = '' } = request
      const message = { headers, text, path: url, body: JSON.parse(text) as ReceivedMessage['body'] }
      const count = this.messages.push(message) - 1
      this.answer(response, message, count)
    })
  })
  #port = 0

  private constructor(private readonly host: string) {}

  static async start(host = '127.0.0.1'): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(host)
    await receiver.up()
    return receiver
  }

  get url(): string {
    return `http://${this.host}:${this.#port}/hook`
  }

  get port(): number {
    return this.#port
  }

  get types(): string[] {
    return this.messages.map(({ body }) => body.type)
  }

  /** Listens again, at the port that the receiver had. */
  async up(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, this.host, resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async down(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  wait(isIt: (message: ReceivedMessage) => boolean, what: string): Promise<ReceivedMessage> {
    const missing = (): string => `${what}; received: ${this.types.join(' ')}`
    return waitFor(() => this.messages.find(isIt), { what: missing })
  }

  type(type: string): Promise<ReceivedMessage> {
    return this.wait(({ body }) => body.type === type, type)
  }
}

/** Computes the signature that a message must have, by the specification and without the product's code. */
export function expectedSignature(secret: string, { headers, text }: ReceivedMessage): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${text}`
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
}
