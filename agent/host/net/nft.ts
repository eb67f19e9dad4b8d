import { noteToolPid, ToolPipe, type PipeOutput } from '../process/pipe.js'
import { CommandError, run } from '../process/process.js'

export type NftFamily = 'ip' | 'ip6' | 'inet' | 'bridge'

/*
 * Runs nft(8) in interactive mode, where one line is one atomic transaction. nft reads and writes with a system call
 * per byte or word, so long input and output use a separate process. User text never gets here. The pattern is the last
 * guard against an injected command or line (`include`, `;` in a name, a line break).
 */
const allowed = /^[A-Za-z0-9 _.,:;{}@/"*!&=<>-]*$/
const refused = /\binclude\b|\bdefine\b/

/** Maximum input in characters; reading more takes longer than starting a process. */
const maxPiped = 8192
const maxOutputBytes = 256 * 1024 * 1024

const markerOutput = /ct expression, datatype mark[^\n]*\n$/

export class Nft {
  readonly #pipe: ToolPipe

  readonly #lasting: boolean

  /**
   * @param options `lasting`: keeps the process, since tables that it owns (`flags owner`) end with it. `onLost`:
   * called if it ended by itself
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
   * Applies commands as one transaction; does nothing for an empty list.
   * @throws {CommandError} with nft's message; code null if it died and the outcome is unknown
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
   * A table as nft prints it, numeric, with its elements' counters.
   * @returns undefined if there is no such table
   */
  async readTable(family: NftFamily, table: string): Promise<string | undefined> {
    return listed(await once(['list', 'table', family, table]))
  }

  /** A set or a chain, given as `set inet TABLE NAME`; undefined if it is missing. */
  async readPart(part: string): Promise<string | undefined> {
    check(part)
    return listed(await this.#pipe.send(`list ${part}`))
  }

  /** All chains of all tables, without rules. */
  async readChains(): Promise<string> {
    return listed(await once(['list', 'chains'])) ?? ''
  }

  /** Ends the process; rules stay in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }
}

/** Runs nft in a separate process. */
function once(args: readonly string[], stdin = ''): Promise<PipeOutput> {
  return run('nft', ['-n', ...args], { stdin, okCodes: [0, 1], maxOutputBytes, onStart: noteToolPid })
}

function check(text: string): void {
  if (!allowed.test(text) || refused.test(text))
    throw new CommandError('nft', 1, '', 'the planned text contains a forbidden character')
}

/** Returns undefined if the listed object is missing. */
function listed({ stdout, stderr }: PipeOutput): string | undefined {
  const problems = withoutWarnings(stderr)
  if (problems.includes('No such file or directory')) return undefined
  if (problems !== '') throw failure(problems)
  return stdout
}

/** nft prints a warning whenever it lists a table that iptables-nft created. */
function withoutWarnings(stderr: string): string {
  return stderr.replace(/^# Warning: .*\n?/gm, '')
}

/** Returns nft's messages without the line that nft repeats below each. */
function failure(stderr: string): CommandError {
  const messages = stderr.split('\n').filter((line) => /error:/i.test(line))
  return new CommandError('nft', 1, messages.slice(0, 3).join('; ') || stderr.slice(0, 500), 'refused')
}
