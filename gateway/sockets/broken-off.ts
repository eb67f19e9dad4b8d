import type { Logger } from 'pino'

const codes: readonly unknown[] = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
]

/** True if an error only means that the client closed or lost its connection. */
export function isBrokenOff(error: unknown): boolean {
  return error instanceof Error && (codes.includes((error as NodeJS.ErrnoException).code) || isBrokenOff(error.cause))
}

/** Logs an error of a connection. Errors that the client caused are logged as debug, without a stack. */
export function logConnectionError(log: Logger, error: unknown, what: string): void {
  if (isBrokenOff(error)) log.debug({ reason: (error as Error).message }, `${what}: the client closed the connection`)
  else log.error({ err: error }, what)
}
