import { CommandError } from '../process/process.js'
import { ToolPipe, type PipeOutput } from '../process/pipe.js'

/** Last guard: planned commands need no other characters. */
const allowed = /^[A-Za-z0-9 :._-]+$/
/** tc caches the index of a name: only a new process sees another interface of that name. */
const staleIndex = /No such device|Cannot find device/

/** The fields of `tc -json qdisc show` that are used. */
export interface Qdisc {
  readonly kind: string
  readonly handle: string
  readonly dev: string
  readonly root?: boolean
  /** Class or hook that it is attached to; absent at the root. */
  readonly parent?: string
}

/** After a query of one device's qdiscs, a batch lists only that device's (iproute2 6.1). Hence another marker. */
const markerOutput = /Usage: tc chain [^\n]*\n[^\n]*BLOCK_INDEX[^\n]*\n$/

/** Runs tc(8) in batch mode with JSON output, except for classes, which it prints as text. */
export class Tc {
  readonly #pipe = new ToolPipe({
    program: 'tc',
    args: ['-json', '-force', '-batch', '-'],
    // This command does not query the kernel, whereas `qdisc show` of any device walks those of all devices.
    marker: 'chain help',
    markerOn: 'stderr',
    beforeMarker: (stderr) => {
      const at = stderr.search(markerOutput)
      return at < 0 ? undefined : stderr.slice(0, at)
    },
    recycleAfter: 2000,
  })

  /**
   * Runs commands one after another; tc has no transactions, and a failure does not stop the next command.
   * @throws {CommandError} with tc's message
   */
  async run(commands: readonly string[]): Promise<void> {
    if (commands.length > 0) await this.#send(commands)
  }

  /** Classes and ingress filters of existing devices, in the order in which tc prints them. */
  async readClasses(devices: readonly string[], filtersOf: string): Promise<string> {
    const queries = devices.map((device) => `class show dev ${device}`)
    return (await this.#send([...queries, `filter show dev ${filtersOf} ingress`])).stdout
  }

  /** Qdiscs of all devices. */
  async listQdiscs(): Promise<Qdisc[]> {
    return JSON.parse((await this.#send(['qdisc show'])).stdout) as Qdisc[]
  }

  /** Ends the process; settings stay in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }

  async #send(commands: readonly string[]): Promise<PipeOutput> {
    if (!commands.every((command) => allowed.test(command)))
      throw new CommandError('tc', 1, '', 'the planned text contains a forbidden character')
    const output = await this.#pipe.send(commands.join('\n'))
    if (output.stderr === '') return output
    if (staleIndex.test(output.stderr)) await this.#pipe.close()
    throw new CommandError('tc', 1, output.stderr, 'refused')
  }
}
