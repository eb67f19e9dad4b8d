import { runPerl, type RunOptions, type RunResult } from './process.js'

export interface SandboxOrder {
  /** An unused user id. The program runs as this user, which also becomes the owner of the directory. */
  readonly userId: number
  /** File that is the standard input, and also available as /dev/stdin. */
  readonly input: string
  readonly directory: string
  /** Name of a new file in the directory that receives the standard output. */
  readonly output?: string
  /** Maximum size in bytes of a file that the program writes. */
  readonly mostBytes: number
}

/**
 * Runs a program on an untrusted file in a sandbox. The program sees only the file, the directory and the system's
 * programs, and can change only the directory.
 * @throws {CommandError} like `run`
 */
export function runInSandbox(
  { userId, input, directory, output = '', mostBytes }: SandboxOrder,
  command: readonly string[],
  options: RunOptions,
): Promise<RunResult> {
  return runPerl('in-sandbox', [`${userId}`, input, directory, output, `${mostBytes}`, ...command], options)
}
