import { status, type ServiceError } from '@grpc/grpc-js'
import { connect, type ConnectionOptions, type PeerCertificate } from 'node:tls'
import { readResponse, requestFrame } from '../../shared/console-frames.js'
import { consoleProtocol, FramedSocket, sparingly } from '../../shared/framed-socket.js'
import { brokenError, refusalError } from '../../shared/grpc-errors.js'
import type { ConsoleListener, ConsoleStream } from './agent-contract.js'

/** OpenSSL's error message if an agent does not support the ALPN protocol of consoles. The code of the error varies. */
const otherVersion = /alert no application protocol/

/** The agent to which a console connects, and the check of its certificate. */
export interface ConsoleTarget {
  /** TLS options of the connection, including the agent's address. */
  readonly options: ConnectionOptions
  /** @throws if the certificate does not belong to the agent, or is no longer valid */
  readonly check: (certificate: PeerCertificate | undefined) => void
}

/** Opens a connection to an agent for one console. Checks the agent's certificate again when messages arrive. */
export function openConsole({ options, check }: ConsoleTarget, listener: ConsoleListener): ConsoleStream {
  const socket = connect({ ...options, ALPNProtocols: [consoleProtocol] })
  let peer: PeerCertificate | undefined
  socket.once('secureConnect', () => (peer = socket.getPeerCertificate()))
  const checkPeer = sparingly(() => check(peer))
  let refused: ServiceError | undefined
  const framed: FramedSocket = new FramedSocket(socket, {
    onFrame: (content, isBytes) => {
      checkPeer()
      const message = readResponse(content, isBytes)
      if (message?.$case === 'refusal') refused = refusalError(message.value)
      else if (message) listener.onMessage(message)
    },
    onEnd: (error) => listener.onEnd(refused ?? endOf(error)),
  })
  return {
    get isPaused() {
      return framed.isPaused
    },
    send: (message) => framed.send(requestFrame(message)),
    end: () => framed.end(),
    cancel: () => framed.destroy(),
    pause: () => framed.pause(),
    resume: () => framed.resume(),
  }
}

function endOf(error: Error | undefined): ServiceError {
  if (!otherVersion.test(error?.message ?? '')) return brokenError(error)
  const message = 'the agent has another version than the gateway, and their consoles are not compatible'
  return refusalError({ status: status.UNIMPLEMENTED, code: '', field: '', message })
}
