import type { Writable } from 'node:stream'
import { withInterrupt } from '../consoles/interrupt.js'
import { noInput, runProgram } from '../consoles/program.js'
import { usageError } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface RunRun {
  readonly guest: string
  readonly command: readonly string[]
  /** False: the program does not get the standard input. Default: true. */
  readonly hasInput?: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Exit code of a program that SIGPIPE (13) has ended. */
const endedByPipe = 128 + 13

/** Runs a program in a container without a terminal, and ends with its exit code. */
export async function runRun({ guest, command, hasInput = true, options, surroundings }: RunRun): Promise<void> {
  if (command.length === 0) throw usageError('no program is given', 'write for example: berth run web1 -- uptime')
  const session = await openSession(surroundings, options)
  const { uuid } = await readGuest(session, guest)
  for (const stream of [process.stdout, process.stderr]) endWithReader(stream)
  const streams = {
    input: hasInput ? (process.stdin as AsyncIterable<Buffer>) : noInput(),
    output: writerTo(process.stdout),
    errors: writerTo(process.stderr),
  }
  const code = await withInterrupt((signal) => runProgram(session, { guest: uuid, command, ...streams, signal }))
  process.exit(code)
}

/** When nobody reads the output any more, ends as after SIGPIPE. Then the program in the guest ends, too. */
function endWithReader(stream: Writable): void {
  stream.removeAllListeners('error')
  stream.on('error', () => process.exit(endedByPipe))
}

function writerTo(stream: Writable): (bytes: Buffer) => Promise<void> {
  return (bytes) =>
    new Promise((resolve, reject) => {
      stream.write(bytes, (error) => (error ? reject(error) : resolve()))
    })
}
