import { CommandError } from './process.js'
import { ToolPipe, type PipeOutput } from './pipe.js'

/** Last guard: what is planned needs no other characters. */
const allowed = /^[A-Za-z0-9 :._-]+$/
/** tc remembers the index a name had: another interface by that name is seen by a new process only. */
const staleIndex = /No such device|Cannot find device/

/** The part of `tc -json qdisc show` that matters here. */
export interface Qdisc {
  readonly kind: string
  readonly handle: string
  readonly dev: string
  readonly root?: boolean
  /** Class or hook it hangs on; absent at the root. */
  readonly parent?: string
}

/** A batch that was asked for the qdiscs of one device lists that device alone ever after (iproute2 6.1). */
const markerOutput = /Usage: tc chain [^\n]*\n[^\n]*BLOCK_INDEX[^\n]*\n$/

/** tc(8) in batch mode, JSON output but for classes, which it prints as text. */
export class Tc {
  readonly #pipe = new ToolPipe({
    program: 'tc',
    args: ['-json', '-force', '-batch', '-'],
    // Asks the kernel nothing: `qdisc show` of whatever device walks those of all.
    marker: 'chain help',
    markerOn: 'stderr',
    beforeMarker: (stderr) => {
      const at = stderr.search(markerOutput)
      return at < 0 ? undefined : stderr.slice(0, at)
    },
    recycleAfter: 2000,
  })

  /**
   * Runs commands one after another (tc has no transactions); one that fails does not keep the next from running.
   * @throws {CommandError} with tc's own words
   */
  async run(commands: readonly string[]): Promise<void> {
    if (commands.length > 0) await this.#send(commands)
  }

  /** Classes and ingress filters of devices that exist, one after another as tc prints them. */
  async readClasses(devices: readonly string[], filtersOf: string): Promise<string> {
    const queries = devices.map((device) => `class show dev ${device}`)
    return (await this.#send([...queries, `filter show dev ${filtersOf} ingress`])).stdout
  }

  /** Of every device. */
  async listQdiscs(): Promise<Qdisc[]> {
    return JSON.parse((await this.#send(['qdisc show'])).stdout) as Qdisc[]
  }

  /** Ends the process; what it set stays in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }

  async #send(commands: readonly string[]): Promise<PipeOutput> {
    if (!commands.every((command) => allowed.test(command)))
      throw new CommandError('tc', 1, '', 'a character outside of planned text')
    const output = await this.#pipe.send(commands.join('\n'))
    if (output.stderr === '') return output
    if (staleIndex.test(output.stderr)) await this.#pipe.close()
    throw new CommandError('tc', 1, output.stderr, 'refused')
  }
}
