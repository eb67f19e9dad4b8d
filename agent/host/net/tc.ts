import { CommandError } from '../process/process.js'
import { ToolPipe, type PipeOutput } from '../process/pipe.js'

/** The characters that planned commands contain. Commands with other characters are refused. */
const allowed = /^[A-Za-z0-9 :._-]+$/
/** Matches errors for an outdated interface index. tc caches indexes by name, so tc must be restarted. */
const staleIndex = /No such device|Cannot find device/

/** The fields of `tc -json qdisc show` that the agent uses. */
export interface Qdisc {
  readonly kind: string
  readonly handle: string
  readonly dev: string
  readonly root?: boolean
  /** Class or hook to which the qdisc is attached. Undefined for a root qdisc. */
  readonly parent?: string
}

/**
 * Matches the usage text of `tc chain`. An invalid command `chain` follows each command, so that its usage text marks
 * the end of the answer.
 */
const markerOutput = /Usage: tc chain [^\n]*\n[^\n]*BLOCK_INDEX[^\n]*\n$/

/** Runs tc(8) in batch mode with JSON output, except for classes, which it prints as text. */
export class Tc {
  readonly #pipe = new ToolPipe({
    program: 'tc',
    args: ['-json', '-force', '-batch', '-'],
    // This command marks the end of an answer. `qdisc show` would list all devices, or only the last (iproute2 6.1).
    marker: 'chain help',
    markerOn: 'stderr',
    beforeMarker: (stderr) => {
      const at = stderr.search(markerOutput)
      return at < 0 ? undefined : stderr.slice(0, at)
    },
    recycleAfter: 2000,
  })

  /**
   * Runs all commands one after another, even if one of them fails. tc has no transactions.
   * @throws {CommandError} with tc's message
   */
  async run(commands: readonly string[]): Promise<void> {
    if (commands.length > 0) await this.#send(commands)
  }

  /** Returns the classes of existing devices and the ingress filters of the device `filtersOf`, as tc prints them. */
  async readClasses(devices: readonly string[], filtersOf: string): Promise<string> {
    const queries = devices.map((device) => `class show dev ${device}`)
    return (await this.#send([...queries, `filter show dev ${filtersOf} ingress`])).stdout
  }

  async listQdiscs(): Promise<Qdisc[]> {
    return JSON.parse((await this.#send(['qdisc show'])).stdout) as Qdisc[]
  }

  /** Ends the tc process. The host keeps its settings. */
  close(): Promise<void> {
    return this.#pipe.close()
  }

  async #send(commands: readonly string[]): Promise<PipeOutput> {
    if (!commands.every((command) => allowed.test(command)))
      throw new CommandError('tc', 1, '', 'the command for tc contains a forbidden character')
    const output = await this.#pipe.send(commands.join('\n'))
    if (output.stderr === '') return output
    if (staleIndex.test(output.stderr)) await this.#pipe.close()
    throw new CommandError('tc', 1, output.stderr, 'refused')
  }
}
