import { execFile } from 'node:child_process'
import type { Logger } from 'pino'
import { conflict } from '../../shared/errors.js'
import type { HostView } from '../fleet/contract.js'

/** Settings of the program that turns off a failed host. */
export interface FencingConfig {
  /** Path of the program. Empty: the gateway runs no program. */
  readonly program: string
  readonly arguments: readonly string[]
  readonly timeout_seconds: number
}

/** Maximum number of bytes of the program's output. A program that prints more is killed. */
const maxOutputBytes = 64 * 1024

/**
 * Runs the operator's fencing program, which must make sure that the host runs no guests. The program gets its configured
 * arguments, and then id, name and address of the host. No shell is involved. Does nothing if no program is configured.
 * @throws {BerthError} `fencing_failed` if the exit code is not 0, or the program does not end in time
 */
export async function fenceHost(
  { program, arguments: fixed, timeout_seconds: seconds }: FencingConfig,
  { id, name, address }: Pick<HostView, 'id' | 'name' | 'address'>,
  log: Logger,
): Promise<void> {
  if (program === '') return
  const options = { timeout: seconds * 1000, killSignal: 'SIGKILL', maxBuffer: maxOutputBytes, env: {} } as const
  const failure = await new Promise<Error | null>((resolve) => {
    execFile(program, [...fixed, id, name, address], options, (error, stdout, stderr) => {
      log.info({ host: id, stdout, stderr }, 'the fencing program has ended')
      resolve(error)
    })
  })
  if (!failure) return
  log.warn({ host: id, reason: failure.message }, 'the fencing program failed')
  throw conflict(
    'fencing_failed',
    `the fencing program did not turn off the host: ${reasonOf(failure, seconds)}; see the log of the gateway`,
  )
}

function reasonOf(error: Error & { code?: unknown; killed?: boolean }, seconds: number): string {
  if (error.killed) return `it was killed after ${seconds} s, or because of too much output`
  return typeof error.code === 'number' ? `its exit code is ${error.code}` : 'it could not be started'
}
