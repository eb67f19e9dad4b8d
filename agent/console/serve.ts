import { createServer, type Server, type Socket } from 'node:net'
import { readRequest, responseFrame, type ConsoleResponse } from '../../shared/console-frames.js'
import { toBerthError } from '../../shared/errors.js'
import type { EndRequest, HoldRequest, OpenConsole } from './contract.js'
import { FrameReader } from '../../shared/framing.js'
import type { Holder } from './holder.js'

export interface ServeListener {
  readonly onConnection: () => void
  /** Called when a client requests that this process, berth-console, ends. */
  readonly onEnd: () => void
}

/** Serves one console per connection. The first frame must be a {@link HoldRequest} or an {@link EndRequest}. */
export function serveConsoles(holder: Holder, listener: ServeListener): Server {
  return createServer((socket) => {
    listener.onConnection()
    serveConsole(holder, socket, listener)
  })
}

function serveConsole(holder: Holder, socket: Socket, { onEnd }: ServeListener): void {
  const reader = new FrameReader()
  let open: OpenConsole | undefined
  let isRefused = false
  const take = (content: Buffer, isBytes: boolean): void => {
    if (!open) return begin(JSON.parse(content.toString()) as HoldRequest | EndRequest)
    const message = readRequest(content, isBytes)
    if (message) open.receive(message)
  }
  const begin = (request: HoldRequest | EndRequest): void => {
    if ('end' in request) return onEnd()
    open = holder.open(request, { send: (response) => send(socket, response), end: () => socket.end() })
  }
  socket.on('data', (chunk: Buffer) => {
    if (isRefused) return
    try {
      reader.push(chunk, take)
    } catch (error) {
      isRefused = true
      refuse(socket, error)
    }
  })
  socket.on('error', () => undefined) // the event `close`, which follows, handles the end
  socket.on('close', () => open?.leave())
}

function send(socket: Socket, message: ConsoleResponse): void {
  if (socket.writable) socket.write(responseFrame(message))
}

/** Refuses a request with an error's code, and sends details for the agent's log. */
function refuse(socket: Socket, thrown: unknown): void {
  const error = toBerthError(thrown, thrown instanceof Error ? thrown.message : 'console')
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : ''
  const detail = `${error.code} ${error.message}${cause}`
  send(socket, { $case: 'exit', value: { code: -1, reason: 'refused', detail } })
  socket.end()
}
