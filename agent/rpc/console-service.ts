import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import type { ConsoleStart } from '../../proto/gen/berth/agent/v1/console.js'
import { readRequest, responseFrame, type ConsoleRequest, type ConsoleResponse } from '../../shared/console-frames.js'
import { BerthError, invalidField, toBerthError } from '../../shared/errors.js'
import { FramedSocket } from '../../shared/framed-socket.js'
import { toRefusal } from '../../shared/grpc-errors.js'
import { parseSize, type AgentConsoles } from '../console/consoles.js'
import type { OpenConsole } from '../console/contract.js'

export interface ConsoleServiceParts {
  readonly consoles: AgentConsoles
  readonly log: Logger
}

/** Serves one console per connection. */
export interface ConsoleService {
  /** @param check throws if the peer is no longer the gateway */
  serve(socket: Socket, check: () => void): void
  /** Ends all connections within `withinMs`. Their terminals stay for some time, so that clients can resume them. */
  close(withinMs: number): void
}

/** Maximum size in bytes of the input in one message. */
const maxInputBytes = 64 * 1024

export function createConsoleService(parts: ConsoleServiceParts): ConsoleService {
  const open = new Set<ServedConsole>()
  const leaving = new BerthError('unavailable', 'host_offline', 'the agent is stopping: try again later')
  return {
    serve: (socket, check) => {
      const served: ServedConsole = new ServedConsole(socket, {
        ...parts,
        check,
        onEnd: () => open.delete(served),
      })
      open.add(served)
    },
    close: (withinMs) => open.forEach((served) => served.fail(leaving, withinMs)),
  }
}

/** One connection. Its first message opens a console. All further messages are passed to this console. */
class ServedConsole {
  readonly #framed: FramedSocket
  #open: OpenConsole | undefined
  /** Messages that arrived before the console was open; undefined afterwards. */
  #early: ConsoleRequest[] | undefined
  #isGone = false

  constructor(
    socket: Socket,
    private readonly parts: ConsoleServiceParts & { check(): void; onEnd(): void },
  ) {
    this.#framed = new FramedSocket(socket, {
      onFrame: (content, isBytes) => this.#unlessRefused(() => this.#take(readRequest(content, isBytes))),
      onEnd: () => {
        this.#leave()
        this.parts.onEnd()
      },
    })
  }

  /** Ends the connection with a reason. @param withinMs time in ms within which the gateway can receive the reason */
  fail(error: unknown, withinMs?: number): void {
    const known = toBerthError(error, 'forward a console')
    if (known.kind === 'internal') this.parts.log.error({ err: error }, 'a console failed')
    this.#send({ $case: 'refusal', value: toRefusal(known) })
    this.#leave()
    this.#framed.end(withinMs)
  }

  #leave(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#open?.leave()
  }

  #send(message: ConsoleResponse): void {
    this.#framed.send(responseFrame(message))
  }

  #show(message: ConsoleResponse): void {
    this.#unlessRefused(() => this.#send(message))
  }

  #unlessRefused(proceed: () => void): void {
    if (this.#isGone) return
    try {
      this.parts.check()
      proceed()
    } catch (error) {
      this.fail(error)
    }
  }

  #take(message: ConsoleRequest | undefined): void {
    if (!message) return
    if (this.#open) return this.#open.receive(checkMessage(message))
    if (this.#early) return void this.#early.push(message)
    if (message.$case !== 'start') throw invalidField('start', 'start: must be sent first')
    this.#early = []
    this.#framed.pause()
    this.#begin(message.value, this.#early).catch((error: unknown) => this.fail(error))
  }

  /** Opens the console. @param early messages that arrived together with the first one */
  async #begin(start: ConsoleStart, early: readonly ConsoleRequest[]): Promise<void> {
    const open = await this.parts.consoles.open(start, {
      send: (response) => this.#show(response),
      end: () => this.#framed.end(),
    })
    if (this.#isGone) return open.leave() // the connection ended while the console was being opened
    this.#open = open
    for (const message of early) open.receive(checkMessage(message))
    this.#framed.resume()
  }
}

/** Checks each message that follows the first one. @throws {BerthError} `invalid_field` */
function checkMessage(message: ConsoleRequest): ConsoleRequest {
  if (message.$case === 'start') throw invalidField('start', 'start: must be sent only once')
  if (message.$case === 'data' && message.value.length > maxInputBytes)
    throw invalidField('data', `data: must have at most ${maxInputBytes} bytes`)
  return message.$case === 'resize' ? { $case: 'resize', value: parseSize(message.value) } : message
}
