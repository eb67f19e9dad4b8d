import type { Readable, Writable } from 'node:stream'
import { CommandError, start } from '../process/process.js'

/* Runs btrfs-send(8) and btrfs-receive(8) with their streams. Both processes end with the agent. */

/** Maximum number of characters of error output that are stored. */
const maxErrorChars = 4096

export interface SendProcess {
  readonly stream: Readable
  /** Resolves when the program has ended successfully. @throws {CommandError} */
  readonly ended: Promise<void>
  kill(): void
}

export interface ReceiveProcess {
  readonly stream: Writable
  /** Resolves when the program has ended successfully. @throws {CommandError} */
  readonly ended: Promise<void>
  kill(): void
}

/** Reads a read-only subvolume as a stream. @param parent if set, reads only the difference to this subvolume */
export function sendSubvolume(path: string, parent?: string): SendProcess {
  const from = parent === undefined ? [] : ['-p', parent]
  const { child, ended } = run(['--quiet', 'send', ...from, path])
  child.stdin.end()
  return { stream: child.stdout, ended, kill: () => void child.kill('SIGKILL') }
}

/**
 * Creates a subvolume in `directory` from a stream. The stream contains the name, and can come from a hostile host.
 * Paths in the stream cannot leave `directory` (chroot). However, the stream names the parent and the sources of clones
 * by UUID, and btrfs-receive(8) finds these anywhere on the filesystem. An attacker would have to know the UUIDs.
 */
export function receiveSubvolume(directory: string): ReceiveProcess {
  const { child, ended } = run(['--quiet', 'receive', '--chroot', '-e', directory])
  child.stdout.resume()
  child.stdin.on('error', () => undefined) // EPIPE: the program has ended, and `ended` rejects
  return { stream: child.stdin, ended, kill: () => void child.kill('SIGKILL') }
}

function run(args: readonly string[]) {
  const child = start('btrfs', args)
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-maxErrorChars)))
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      if (code === 0) resolve()
      else reject(new CommandError('btrfs', code, stderr, signal ? `killed by signal ${signal}` : `exit code ${code}`))
    })
  })
  ended.catch(() => undefined) // prevents an unhandled rejection if the caller awaits `ended` only later
  return { child, ended }
}
