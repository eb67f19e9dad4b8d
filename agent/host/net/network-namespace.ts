import { statSync } from 'node:fs'
import { CommandError, run } from '../process/process.js'

/** Returns the inode number of this process's network namespace, which identifies it (namespaces(7)). */
export function readNetworkNamespace(): number {
  return statSync('/proc/self/ns/net').ino
}

export interface NetworkCommands {
  /** Commands for ip's batch mode. */
  readonly lines: readonly string[]
  /** Matches error messages of ip that do not make the call fail. */
  readonly harmless: RegExp
}

/**
 * Runs the host's ip(8) in the network namespace of a process. The program has the host's files and all other
 * namespaces of the host.
 * @returns the output of ip
 * @throws {CommandError} with ip's message
 */
export async function runInNetwork(
  pid: number,
  args: readonly string[],
  { lines, harmless }: NetworkCommands = { lines: [], harmless: /^$/ },
): Promise<string> {
  const stdin = lines.map((line) => `${line}\n`).join('')
  const options = { stdin, okCodes: [0, 1, 2], timeoutMs: 10_000 }
  const { code, stdout, stderr } = await run('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', ...args], options)
  if (stderr !== '' && !harmless.test(stderr)) throw new CommandError('ip', code, stderr, args.join(' '))
  return stdout
}
