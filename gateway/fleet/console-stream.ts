import type { ServiceError } from '@grpc/grpc-js'
import { connect, type ConnectionOptions } from 'node:tls'
import { OpenConsoleRequest, OpenConsoleResponse } from '../../proto/gen/berth/agent/v1/console.js'
import { consoleProtocol, FramedSocket } from '../../shared/framed-socket.js'
import { brokenError, refusalError } from '../../shared/grpc-errors.js'
import type { ConsoleListener, ConsoleStream } from './contract.js'

/** Opens a connection to an agent for one console. @param options of TLS, with the agent's address */
export function openConsole(options: ConnectionOptions, listener: ConsoleListener): ConsoleStream {
  const socket = connect({ ...options, ALPNProtocols: [consoleProtocol] })
  let refused: ServiceError | undefined
  const framed: FramedSocket = new FramedSocket(socket, {
    onFrame: (frame) => {
      const { message } = OpenConsoleResponse.decode(frame)
      if (message?.$case === 'refusal') refused = refusalError(message.value)
      else if (message) listener.onMessage(message)
    },
    onEnd: (error) => listener.onEnd(refused ?? brokenError(error)),
  })
  return {
    get isPaused() {
      return framed.isPaused
    },
    send: (message) => framed.send(OpenConsoleRequest.encode({ message }).finish()),
    end: () => framed.end(),
    cancel: () => framed.destroy(),
    pause: () => framed.pause(),
    resume: () => framed.resume(),
  }
}
