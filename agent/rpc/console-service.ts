import type { ServerDuplexStream } from '@grpc/grpc-js'
import type { Logger } from 'pino'
import type { OpenConsoleRequest, OpenConsoleResponse } from '../../proto/gen/berth/agent/v1/console.js'
import type { ConsoleServiceServer } from '../../proto/gen/berth/agent/v1/console_service.js'
import { BerthError, invalidField, toBerthError } from '../../shared/errors.js'
import { toServiceError } from '../../shared/grpc-errors.js'
import { parseSize, type Consoles } from '../console/consoles.js'
import type { ConsoleRequest, ConsoleUser, OpenConsole } from '../console/contract.js'

type Call = ServerDuplexStream<OpenConsoleRequest, OpenConsoleResponse>

export interface ConsoleServiceParts {
  readonly consoles: Consoles
  readonly log: Logger
}

/** Largest input in one message. */
const maxInputBytes = 64 * 1024

/** @returns the service, and a function that ends all its streams; terminals stay for a while */
export function createConsoleService({ consoles, log }: ConsoleServiceParts): {
  service: ConsoleServiceServer
  close: () => void
} {
  const calls = new Set<Call>()
  const service: ConsoleServiceServer = {
    openConsole: (call) => {
      calls.add(call)
      call.once('close', () => calls.delete(call))
      call.on('error', () => undefined) // the gateway is gone, which `cancelled` tells
      serveStream(call, consoles, log)
    },
  }
  const leaving = new BerthError('unavailable', 'host_offline', 'the agent is being stopped')
  return { service, close: () => calls.forEach((call) => end(call, leaving)) }
}

/** Answers the error's status, which `destroy` would not. */
function end(call: Call, error: BerthError): void {
  call.emit('error', toServiceError(error))
}

/** One stream: its first message opens a console, the others go there. */
function serveStream(call: Call, consoles: Consoles, log: Logger): void {
  let open: OpenConsole | undefined
  let gone = false
  const fail = (error: unknown): void => {
    const known = toBerthError(error, 'console')
    if (known.kind === 'internal') log.error({ err: error }, 'console')
    leave()
    end(call, known)
  }
  const leave = (): void => {
    gone = true
    open?.leave()
  }
  const begin = async ({ message }: OpenConsoleRequest): Promise<void> => {
    if (message?.$case !== 'start') throw invalidField('start', 'start: must come first')
    open = await consoles.open(message.value, userOf(call))
    if (gone) return open.leave() // while it was being opened
    call.on('data', take)
    call.resume()
  }
  const take = ({ message }: OpenConsoleRequest): void => {
    try {
      if (message) open?.receive(check(message))
    } catch (error) {
      fail(error)
    }
  }
  call.on('cancelled', leave)
  call.on('end', leave)
  call.once('data', (first) => {
    call.pause()
    begin(first as OpenConsoleRequest).catch(fail)
  })
}

function userOf(call: Call): ConsoleUser {
  return {
    send: (message) => void call.write({ message }),
    end: () => call.end(),
  }
}

/** @throws {BerthError} `invalid_field` */
function check(message: ConsoleRequest): ConsoleRequest {
  if (message.$case === 'start') throw invalidField('start', 'start: comes once')
  if (message.$case === 'data' && message.value.length > maxInputBytes)
    throw invalidField('data', `data: at most ${maxInputBytes} bytes`)
  return message.$case === 'resize' ? { $case: 'resize', value: parseSize(message.value) } : message
}
