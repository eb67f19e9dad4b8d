import type { WriteStream } from 'node:tty'
import { withInterrupt } from '../consoles/interrupt.js'
import { noInput, runProgram } from '../consoles/program.js'
import { CliError, exitCodes, systemErrorText, usageError } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { controlFilter } from '../output/controls.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface RunRun {
  readonly guest: string
  readonly command: readonly string[]
  /** False: the program does not get the standard input. Default: true. */
  readonly hasInput?: boolean
  /** True: a terminal shows the output without control characters. Default: false. */
  readonly isFiltered?: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Exit code of a program that SIGPIPE (13) has ended. */
const endedByPipe = 128 + 13

/** Runs a program in a container without a terminal, and ends with its exit code. */
export async function runRun(run: RunRun): Promise<void> {
  const { guest, command, hasInput = true, isFiltered = false, options, surroundings } = run
  if (command.length === 0) throw usageError('no program is given', 'write for example: berth run web1 -- uptime')
  const session = await openSession(surroundings, options)
  const { uuid } = await readGuest(session, guest)
  for (const stream of [process.stdout, process.stderr]) endWithReader(stream)
  const streams = {
    input: hasInput ? (process.stdin as AsyncIterable<Buffer>) : noInput(),
    output: writerTo(process.stdout, isFiltered),
    errors: writerTo(process.stderr, isFiltered),
  }
  const code = await withInterrupt((signal) => runProgram(session, { guest: uuid, command, ...streams, signal }))
  process.exit(code)
}

/** Ends this program with SIGPIPE's exit code when nobody reads its output any more. The guest's program also ends. */
function endWithReader(stream: WriteStream): void {
  stream.removeAllListeners('error')
  stream.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') process.exit(endedByPipe)
  })
}

const writeError = (cause: Error): CliError =>
  new CliError(exitCodes.failed, `the output cannot be written: ${systemErrorText(cause)}`)

function writerTo(stream: WriteStream, isFiltered: boolean): (bytes: Buffer) => Promise<void> {
  const shown = isFiltered && stream.isTTY ? controlFilter() : (bytes: Buffer) => bytes
  return (bytes) =>
    new Promise((resolve, reject) => {
      stream.write(shown(bytes), (error) => (error ? reject(writeError(error)) : resolve()))
    })
}
