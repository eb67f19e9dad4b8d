import { CommandError } from '../process/process.js'
import { ToolPipe } from '../process/pipe.js'

/**
 * Output that marks the end of an answer: the loopback interface. It has index 1 in every network namespace, and no
 * other command of the agent prints it.
 */
const markerOutput = /\[\{"ifindex":1,"ifname":"lo",.*\}\]\n$/
const allowed = /^[A-Za-z0-9 _.:/@-]+$/
const notThere = /does not exist|Cannot find device/
/** Messages about a missing address, route, neighbour or interface. */
const gone = /Cannot assign requested address|No such (?:process|file or directory|device)|Cannot find device/
/** ip caches the index of a name: only a new process sees another interface of that name. */
const staleIndex = /No such device/

/** True if ip failed because the interface, address or entry no longer exists, or because it cached a deleted one. */
export function isGoneForIp(error: unknown): boolean {
  return error instanceof CommandError && gone.test(error.stderr)
}

/** Runs ip(8) in batch mode with JSON output. */
export class Ip {
  readonly #pipe = new ToolPipe({
    program: 'ip',
    args: ['-json', '-details', '-force', '-batch', '-'],
    // Uses this instead of `link show`, after which ip shows no addresses for the rest of the batch.
    marker: 'address show dev lo',
    beforeMarker: (stdout) => {
      const at = stdout.search(markerOutput)
      return at < 0 ? undefined : stdout.slice(0, at)
    },
    recycleAfter: 2000,
  })

  /**
   * Runs commands one after another; ip has no transactions.
   * @throws {CommandError} at the first failure, with ip's message
   */
  async run(commands: readonly string[]): Promise<void> {
    for (const command of commands) {
      const { stderr } = await this.#send(command)
      if (stderr !== '') throw new CommandError('ip', 1, stderr, command)
    }
  }

  /** Runs removals one after another. Missing entries are not a failure. @throws {CommandError} */
  async remove(commands: readonly string[]): Promise<void> {
    for (const command of commands) {
      const { stderr } = await this.#send(command)
      if (stderr !== '' && !gone.test(stderr)) throw new CommandError('ip', 1, stderr, command)
    }
  }

  /** The interface with its addresses, as `ip -json -details address show` prints it; undefined: it is missing. */
  async findInterface(name: string): Promise<unknown> {
    let { stdout, stderr } = await this.#send(`address show dev ${name}`)
    if (staleIndex.test(stderr)) {
      await this.#pipe.close()
      ;({ stdout, stderr } = await this.#send(`address show dev ${name}`))
    }
    if (notThere.test(stderr)) return undefined
    if (stderr !== '') throw new CommandError('ip', 1, stderr, `address show dev ${name}`)
    return (JSON.parse(stdout) as unknown[])[0]
  }

  /**
   * Rows of a `show` command; empty for a missing interface.
   * @throws {CommandError} with ip's message
   */
  async list(command: string): Promise<unknown[]> {
    const { stdout, stderr } = await this.#send(command)
    if (notThere.test(stderr)) return []
    if (stderr !== '') throw new CommandError('ip', 1, stderr, command)
    return stdout.trim() === '' ? [] : (JSON.parse(stdout) as unknown[])
  }

  close(): Promise<void> {
    return this.#pipe.close()
  }

  /** `ip neighbour` ends the whole batch if the kernel refuses (ipneigh.c). Its last output is the answer then. */
  async #send(command: string): ReturnType<ToolPipe['send']> {
    if (!allowed.test(command)) throw new CommandError('ip', 1, '', 'the planned text contains a forbidden character')
    try {
      return await this.#pipe.send(command)
    } catch (error) {
      if (error instanceof CommandError && error.stderr !== '') return { stdout: '', stderr: error.stderr }
      throw error
    }
  }
}
