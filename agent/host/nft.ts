import { noteToolPid, ToolPipe, type PipeOutput } from './pipe.js'
import { CommandError, run } from './process.js'

export type NftFamily = 'ip' | 'ip6' | 'inet' | 'bridge'

/*
 * nft(8) in interactive mode. One line is one atomic transaction: all of it takes effect or none of it. It reads
 * every byte and writes every word by a system call of its own: what is long goes to and comes from a process that
 * ends with it. No user text ever gets here; the pattern is the last guard against a command or a line smuggled in
 * (`include`, `;` in a name, a line break).
 */
const allowed = /^[A-Za-z0-9 _.,:;{}@/"*!&=<>-]*$/
const refused = /\binclude\b|\bdefine\b/

/** Characters; more than that takes longer to read than a process to start. */
const maxPiped = 8192
const maxOutputBytes = 256 * 1024 * 1024

const markerOutput = /ct expression, datatype mark[^\n]*\n$/

export class Nft {
  readonly #pipe: ToolPipe

  readonly #lasting: boolean

  /**
   * @param options `lasting`: the process stays; tables that it owns (`flags owner`) last as long. `onLost`: it ended
   * without having been told to
   */
  constructor({ lasting = false, onLost }: { lasting?: boolean; onLost?: () => void } = {}) {
    this.#lasting = lasting
    this.#pipe = new ToolPipe({
      program: 'nft',
      args: ['-n', '-i'],
      marker: 'describe ct mark',
      beforeMarker: (stdout) => {
        const at = stdout.slice(-200).search(markerOutput)
        return at < 0 ? undefined : stdout.slice(0, stdout.length - Math.min(stdout.length, 200) + at)
      },
      recycleAfter: lasting ? Infinity : 5000,
      ...(onLost ? { onLost } : {}),
    })
  }

  /**
   * Applies commands as one transaction; none: does nothing.
   * @throws {CommandError} with nft's own words; code null when it died and the outcome is unknown
   */
  async apply(commands: readonly string[]): Promise<void> {
    if (commands.length === 0) return
    commands.forEach(check)
    const line = commands.join('; ')
    const { stderr } =
      this.#lasting || line.length <= maxPiped
        ? await this.#pipe.send(line)
        : await once(['-f', '-'], commands.join('\n'))
    const problems = withoutWarnings(stderr)
    if (problems !== '') throw failure(problems)
  }

  /**
   * A table as nft prints it, numeric, with what its elements have counted.
   * @returns undefined when there is no such table
   */
  async readTable(family: NftFamily, table: string): Promise<string | undefined> {
    return listed(await once(['list', 'table', family, table]))
  }

  /** A set or a chain, as `set inet TABLE NAME`; undefined when it is not there. */
  async readPart(part: string): Promise<string | undefined> {
    check(part)
    return listed(await this.#pipe.send(`list ${part}`))
  }

  /** All chains of all tables, without their rules. */
  async readChains(): Promise<string> {
    return listed(await once(['list', 'chains'])) ?? ''
  }

  /** Ends the process; rules stay in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }
}

/** In a process that ends with it. */
function once(args: readonly string[], stdin = ''): Promise<PipeOutput> {
  return run('nft', ['-n', ...args], { stdin, okCodes: [0, 1], maxOutputBytes, onStart: noteToolPid })
}

function check(text: string): void {
  if (!allowed.test(text) || refused.test(text))
    throw new CommandError('nft', 1, '', 'a character outside of the rules of planned text')
}

/** Undefined: what was to be listed is not there. */
function listed({ stdout, stderr }: PipeOutput): string | undefined {
  const problems = withoutWarnings(stderr)
  if (problems.includes('No such file or directory')) return undefined
  if (problems !== '') throw failure(problems)
  return stdout
}

/** nft warns of a table that iptables-nft made, whenever it is listed. */
function withoutWarnings(stderr: string): string {
  return stderr.replace(/^# Warning: .*\n?/gm, '')
}

/** nft repeats the whole line below each message: keep the messages alone. */
function failure(stderr: string): CommandError {
  const messages = stderr.split('\n').filter((line) => /error:/i.test(line))
  return new CommandError('nft', 1, messages.slice(0, 3).join('; ') || stderr.slice(0, 500), 'refused')
}
