import { spawn } from 'node:child_process'
import type { Server } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

const program = join(import.meta.dirname, 'store-descriptors.pl')

/**
 * systemd's file descriptor store of this service. Sockets in the store stay open while the service restarts, and the
 * next process inherits them.
 */
export class DescriptorStore {
  /** @param notifySocket address of systemd's socket, from NOTIFY_SOCKET */
  constructor(private readonly notifySocket: string) {}

  /** Stores a copy of the server's listening socket. @throws {Error} with the error output of `program` */
  store(name: string, server: Server): Promise<void> {
    // Node has no public property for the descriptor of a server.
    const { fd } = (server as unknown as { readonly _handle: { readonly fd: number } })._handle
    return this.#run(['store', name], [fd])
  }

  /** Closes the stored copy of a socket. */
  remove(name: string): Promise<void> {
    return this.#run(['remove', name])
  }

  /** Runs the Perl script `program`. @param passed descriptors that the script inherits as 3, 4 and so on */
  async #run(words: readonly string[], passed: readonly number[] = []): Promise<void> {
    const child = spawn('/usr/bin/perl', [program, ...words], {
      stdio: ['ignore', 'ignore', 'pipe', ...passed],
      env: { NOTIFY_SOCKET: this.notifySocket },
    })
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject).once('close', resolve)
    })
    const [code, reason] = await Promise.all([ended, text(child.stderr!)])
    if (code !== 0)
      throw new Error(`systemd's file descriptor store refused the request: ${reason.trim() || `exit code ${code}`}`)
  }
}
