import { CommandError } from './process.js'
import { ToolPipe } from './pipe.js'

export type NftFamily = 'ip' | 'ip6' | 'inet' | 'bridge'

/*
 * nft(8) in interactive mode. One line is one atomic transaction: all of it takes effect or none of it. No
 * user text ever gets here; the pattern is the last guard against a command or a line smuggled in
 * (`include`, `;` in a name, a line break).
 */
const allowed = /^[A-Za-z0-9 _.,:;{}@/"*!&=<>-]*$/
const refused = /\binclude\b|\bdefine\b/

const numeric = ['-n', '-i']
const markerOutput = /ct expression, datatype mark[^\n]*\n$/

export class Nft {
  readonly #pipe: ToolPipe

  /** @param lasting whether the process stays: tables that it owns (`flags owner`) last as long */
  constructor({ lasting = false } = {}) {
    this.#pipe = new ToolPipe({
      program: 'nft',
      args: numeric,
      marker: 'describe ct mark',
      beforeMarker: (stdout) => {
        const at = stdout.slice(-200).search(markerOutput)
        return at < 0 ? undefined : stdout.slice(0, stdout.length - Math.min(stdout.length, 200) + at)
      },
      recycleAfter: lasting ? Infinity : 5000,
    })
  }

  /**
   * Applies commands as one transaction; none: does nothing.
   * @throws {CommandError} with nft's own words; code null when it died and the outcome is unknown
   */
  async apply(commands: readonly string[]): Promise<void> {
    if (commands.length === 0) return
    const { stderr } = await this.#send(commands.join('; '))
    if (stderr !== '') throw failure(stderr)
  }

  /**
   * A table as nft prints it, numeric, with what its elements have counted.
   * @returns undefined when there is no such table
   */
  readTable(family: NftFamily, table: string): Promise<string | undefined> {
    return this.#list(`table ${family} ${table}`)
  }

  /** A set or a chain, as `set inet TABLE NAME`; undefined when it is not there. */
  readPart(part: string): Promise<string | undefined> {
    return this.#list(part)
  }

  /** All chains of all tables, without their rules. */
  async readChains(): Promise<string> {
    return (await this.#list('chains')) ?? ''
  }

  /** Ends the process; rules stay in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }

  async #list(what: string): Promise<string | undefined> {
    const { stdout, stderr } = await this.#send(`list ${what}`)
    if (stderr.includes('No such file or directory')) return undefined
    if (stderr !== '') throw failure(stderr)
    return stdout
  }

  async #send(line: string): ReturnType<ToolPipe['send']> {
    if (!allowed.test(line) || refused.test(line))
      throw new CommandError('nft', 1, '', 'a character outside of the rules of planned text')
    return this.#pipe.send(line)
  }
}

/** nft repeats the whole line below each message: keep the messages alone. */
function failure(stderr: string): CommandError {
  const messages = stderr.split('\n').filter((line) => /error:/i.test(line))
  return new CommandError('nft', 1, messages.slice(0, 3).join('; ') || stderr.slice(0, 500), 'refused')
}
