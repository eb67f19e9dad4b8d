import type { IncomingHttpHeaders } from 'node:http'
import { OutboundClient, readText, type OutboundOptions, type OutboundOrder } from '../../shared/outbound-request.js'

export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** Timeouts that are longer than any test waits. */
const timeouts = { connectMs: 300_000, headersMs: 300_000, bodyMs: 300_000 }
const mostBytes = 2 ** 29

/** Creates an HTTP client for the servers that tests start. */
export function createClient(options: Partial<OutboundOptions> = {}): OutboundClient {
  return new OutboundClient({ timeouts, ...options })
}

export async function ask(client: OutboundClient, url: string, order: OutboundOrder = {}): Promise<HttpAnswer> {
  const { status, headers, body } = await client.send(url, order)
  return { status, headers, text: await readText(body, mostBytes) }
}
