import { Agent, request, type OutgoingHttpHeaders } from 'node:http'
import { request as requestTls } from 'node:https'
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'
import { describeError } from '../../../shared/errors.js'

/*
 * A client as a separate process, which a test can run inside a network namespace. Each input line is {method,
 * argument}; each output line is {result} or {error}.
 */

export interface PolicyCall {
  readonly url: string
  /** Source address. By default the kernel chooses it. */
  readonly from?: string | undefined
  readonly method?: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string
  /** Subprotocols of the WebSocket. */
  readonly protocols?: readonly string[]
}

export interface PolicyAnswer {
  readonly status: number
  /** Code of the error; "" without an error. */
  readonly code: string
  readonly text: string
}

/** How a socket has ended; `null` while it is open. */
export type SocketEnd = { readonly code: number; readonly reason: string } | null

/** All sockets and streams that were opened, in order. */
const opened: { ended: SocketEnd }[] = []

function ask({ url, from, method = 'GET', headers = {}, body }: PolicyCall): Promise<PolicyAnswer> {
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? requestTls : request
    const options = { method, headers, agent: false, rejectUnauthorized: false } as const
    const sent = send(url, { ...options, ...(from && { localAddress: from }) }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, code: codeOf(text), text }))
      response.on('error', reject)
    })
    sent.setTimeout(10_000, () => sent.destroy(new Error('no answer')))
    sent.on('error', reject)
    sent.end(body)
  })
}

function codeOf(text: string): string {
  try {
    return (JSON.parse(text) as { code?: string }).code ?? ''
  } catch {
    return ''
  }
}

/** Opens a socket or a stream. Resolves with its number when it is open. */
async function open(call: PolicyCall): Promise<number> {
  const state = { ended: null }
  const number = opened.push(state) - 1
  await (call.url.startsWith('ws') ? openSocket(call, state) : openStream(call, state))
  return number
}

function openSocket({ url, from, protocols = [], headers }: PolicyCall, state: { ended: SocketEnd }) {
  return new Promise<void>((resolve, reject) => {
    const options = { headers: headers as Record<string, string>, perMessageDeflate: false }
    const socket = new WebSocket(url, [...protocols], { ...options, ...(from && { localAddress: from }) })
    socket.on('message', (data) => {
      if ((data as Buffer).toString().includes('"ready"')) resolve()
    })
    socket.on('unexpected-response', (_, response) => reject(new Error(`status ${response.statusCode}`)))
    socket.on('error', () => undefined)
    socket.on('close', (code, reason) => {
      state.ended = { code, reason: reason.toString() }
      reject(new Error(`closed: ${code} ${reason.toString()}`))
    })
  })
}

/** Sends a request whose connection stays open: the response does not end, or the connection is kept alive. */
function openStream({ url, from, headers }: PolicyCall, state: { ended: SocketEnd }) {
  return new Promise<void>((resolve, reject) => {
    const agent = new Agent({ keepAlive: true })
    const options = { agent, ...(headers && { headers }), ...(from && { localAddress: from }) }
    const sent = request(url, options, (response) => {
      response.on('error', () => undefined)
      response.resume()
      if (response.statusCode === 200) resolve()
      else reject(new Error(`status ${response.statusCode}`))
    })
    sent.on('socket', (socket) => socket.on('close', () => (state.ended = { code: 0, reason: 'closed' })))
    sent.on('error', reject)
    sent.end()
  })
}

const methods = {
  ask,
  open,
  ended: async (number: number) => Promise.resolve(opened[number]?.ended),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as { method: keyof typeof methods; argument: never }
  const answer = await methods[method](argument).then(
    (result) => ({ result }),
    (error: unknown) => ({ error: describeError(error) }),
  )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
