import { CommandError } from '../process/process.js'
import { ToolPipe } from '../process/pipe.js'

/**
 * Matches the output of the marker command, which shows the loopback interface. The index of this interface is 1 in
 * every network namespace. No other command of the agent prints this interface.
 */
const markerOutput = /\[\{"ifindex":1,"ifname":"lo",.*\}\]\n$/
const allowed = /^[A-Za-z0-9 _.:/@-]+$/
const notThere = /does not exist|Cannot find device/
/** Matches messages about a missing address, route, neighbour or interface. */
const gone = /Cannot assign requested address|No such (?:process|file or directory|device)|Cannot find device/
/** Matches the error for an outdated interface index. ip caches indexes by name, so ip must be restarted. */
const staleIndex = /No such device/

/** True if ip failed because an interface, address or entry is gone, or because ip cached an old interface index. */
export function isGoneForIp(error: unknown): boolean {
  return error instanceof CommandError && gone.test(error.stderr)
}

/** Runs ip(8) in batch mode with JSON output. */
export class Ip {
  readonly #pipe = new ToolPipe({
    program: 'ip',
    args: ['-json', '-details', '-force', '-batch', '-'],
    // This command marks the end of an answer. `link show` is unsuitable, because ip would omit addresses afterwards.
    marker: 'address show dev lo',
    beforeMarker: (stdout) => {
      const at = stdout.search(markerOutput)
      return at < 0 ? undefined : stdout.slice(0, at)
    },
    recycleAfter: 2000,
  })

  /**
   * Runs commands one after another. ip has no transactions, so earlier commands stay in force after a failure.
   * @throws {CommandError} at the first failure, with ip's message
   */
  async run(commands: readonly string[]): Promise<void> {
    for (const command of commands) {
      const { stderr } = await this.#send(command)
      if (stderr !== '') throw new CommandError('ip', 1, stderr, command)
    }
  }

  /** Runs removals one after another. It is not a failure if an entry does not exist. @throws {CommandError} */
  async remove(commands: readonly string[]): Promise<void> {
    for (const command of commands) {
      const { stderr } = await this.#send(command)
      if (stderr !== '' && !gone.test(stderr)) throw new CommandError('ip', 1, stderr, command)
    }
  }

  /** Returns `ip -json -details address show` of an interface; undefined if the interface does not exist. */
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
   * Returns the rows of a `show` command; empty if the interface does not exist.
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

  /** Sends a command. If the kernel refuses `ip neighbour`, ip ends (ipneigh.c), and its last output is returned. */
  async #send(command: string): ReturnType<ToolPipe['send']> {
    if (!allowed.test(command)) throw new CommandError('ip', 1, '', 'the command for ip contains a forbidden character')
    try {
      return await this.#pipe.send(command)
    } catch (error) {
      if (error instanceof CommandError && error.stderr !== '') return { stdout: '', stderr: error.stderr }
      throw error
    }
  }
}
