import type { handleUnaryCall } from '@grpc/grpc-js'
import type { Logger } from 'pino'
import { BerthError, toBerthError } from '../../shared/errors.js'
import { toServiceError } from '../../shared/grpc-errors.js'

/** Wraps a function as a gRPC handler. Its errors become a gRPC status, and internal errors are also logged. */
export function unary<Request, Response>(
  log: Logger,
  name: string,
  handle: (request: Request) => Response | Promise<Response>,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    Promise.resolve()
      .then(() => handle(call.request))
      .then(
        (response) => callback(null, response),
        (error: unknown) => {
          const known = toBerthError(error, name)
          if (!(error instanceof BerthError) || known.kind === 'internal')
            log.error({ err: error, call: name }, 'the agent could not answer a call from the gateway')
          callback(toServiceError(known, name))
        },
      )
  }
}
