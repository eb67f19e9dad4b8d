import { noteToolPid, ToolPipe, type PipeOutput } from '../process/pipe.js'
import { CommandError, run } from '../process/process.js'

export type NftFamily = 'ip' | 'ip6' | 'inet' | 'bridge'

/*
 * Runs nft(8) in interactive mode, in which each line is an atomic transaction. nft needs a system call per byte of
 * input and per word of output. Long input and output therefore use a separate process. Commands contain no text of
 * users. The patterns are the last protection against an injected command or line (`include`, `;` in a name, a line
 * break).
 */
const allowed = /^[A-Za-z0-9 _.,:;{}@/"*!&=<>-]*$/
const refused = /\binclude\b|\bdefine\b/

/** Maximum length in characters of a line for the running nft. A new process reads longer lines faster. */
const maxPiped = 8192
const maxOutputBytes = 256 * 1024 * 1024

const markerOutput = /ct expression, datatype mark[^\n]*\n$/

export class Nft {
  readonly #pipe: ToolPipe

  readonly #lasting: boolean

  /**
   * @param options `lasting`: the process is never replaced, because its end would delete the tables that it owns
   * (`flags owner`). `onLost`: called if the process has ended by itself
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
   * Applies commands as one transaction. Does nothing for an empty list.
   * @throws {CommandError} with nft's message; its code is null if nft was killed, so that the outcome is unknown
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
   * Returns a table as nft prints it in numeric form, with the counters of elements.
   * @returns undefined if the table does not exist
   */
  async readTable(family: NftFamily, table: string): Promise<string | undefined> {
    return listed(await once(['list', 'table', family, table]))
  }

  /** Returns a set or chain as nft prints it; undefined if it does not exist. @param part like `set inet TABLE NAME` */
  async readPart(part: string): Promise<string | undefined> {
    check(part)
    return listed(await this.#pipe.send(`list ${part}`))
  }

  /** Returns all chains of all tables, without their rules. */
  async readChains(): Promise<string> {
    return listed(await once(['list', 'chains'])) ?? ''
  }

  /** Ends the process. The rules stay in force. */
  close(): Promise<void> {
    return this.#pipe.close()
  }
}

function once(args: readonly string[], stdin = ''): Promise<PipeOutput> {
  return run('nft', ['-n', ...args], { stdin, okCodes: [0, 1], maxOutputBytes, onStart: noteToolPid })
}

function check(text: string): void {
  if (!allowed.test(text) || refused.test(text))
    throw new CommandError('nft', 1, '', 'the command for nft contains a forbidden character')
}

/** Returns the output of a `list` command; undefined if the listed object does not exist. */
function listed({ stdout, stderr }: PipeOutput): string | undefined {
  const problems = withoutWarnings(stderr)
  if (problems.includes('No such file or directory')) return undefined
  if (problems !== '') throw failure(problems)
  return stdout
}

/** Removes the warnings that nft prints when it lists a table of iptables-nft. */
function withoutWarnings(stderr: string): string {
  return stderr.replace(/^# Warning: .*\n?/gm, '')
}

/** Returns an error with nft's messages, without the command that nft repeats below each message. */
function failure(stderr: string): CommandError {
  const messages = stderr.split('\n').filter((line) => /error:/i.test(line))
  return new CommandError('nft', 1, messages.slice(0, 3).join('; ') || stderr.slice(0, 500), 'refused')
}
