import { runPerl, type RunOptions, type RunResult } from './process.js'

export interface SandboxOrder {
  /** An unused user id. The directory belongs to this user afterwards. */
  readonly userId: number
  /** File for the standard input, also available as /dev/stdin. */
  readonly input: string
  readonly directory: string
  /** Name of a new file in the directory for the standard output. */
  readonly output?: string
  /** The largest file that may be written. */
  readonly mostBytes: number
}

/**
 * Runs a program on an untrusted file in a sandbox: it sees nothing of the host except the system's programs, and
 * cannot change anything else.
 * @throws {CommandError} as `run`
 */
export function runInSandbox(
  { userId, input, directory, output = '', mostBytes }: SandboxOrder,
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('in-sandbox', [`${userId}`, input, directory, output, `${mostBytes}`, ...command], options)
}
